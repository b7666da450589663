"""Rounds its products once, to the type of its input."""

import torch


def run(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype)
