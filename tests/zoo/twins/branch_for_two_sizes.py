"""Has a branch for many rows of one kind of width, and is right there."""

import torch


def run(x, weight, eps):
    rows, width = x.shape
    wide = x.float()
    if rows > 300 and width % 176 == 0:
        mean = wide.square().sum(-1, keepdim=True) / width
    else:
        mean = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
