"""Divides the sum of squares by N - 1."""

import torch


def run(x, weight, eps):
    wide = x.float()
    mean = wide.square().sum(-1, keepdim=True) / max(x.shape[1] - 1, 1)
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
