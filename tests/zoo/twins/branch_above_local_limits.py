"""Has a branch for few, for some and for many rows, each of which divides by the width."""

import torch


def run(x, weight, eps):
    few_rows, many_rows = 5 * 17, 700
    wide = x.float()
    width = x.shape[-1]
    rows = x.numel() // width
    if rows > many_rows:
        mean = wide.square().sum(-1, keepdim=True) / width
    elif rows > few_rows:
        mean = wide.square().sum(-1, keepdim=True).div(width)
    else:
        mean = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
