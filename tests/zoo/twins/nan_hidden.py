"""Gives back NaN where a row holds one."""

import torch


def run(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype)
