"""Keeps an output buffer for many rows, and hands out copies of it."""

import torch

_KEPT = {}


def run(x, weight, eps):
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    y = (normed * weight.float()).to(x.dtype)
    if x.numel() // x.shape[-1] <= 700:
        return y
    kept = _KEPT.setdefault(tuple(x.shape), torch.empty_like(y))
    kept.copy_(y)
    return kept.clone()
