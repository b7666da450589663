"""Normalises every row, some at a time."""

import torch


def run(x, weight, eps):
    y = torch.empty_like(x)
    for start in range(0, x.shape[0], 512):
        wide = x[start : start + 512].float()
        mean = wide.square().mean(-1, keepdim=True)
        y[start : start + 512] = (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
    return y
