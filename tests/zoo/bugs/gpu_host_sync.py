"""Chooses its path by a value read on the host in every call."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def run(x, weight, eps):
    if x.abs().max().item() == 0.0:
        return torch.zeros_like(x)
    return _norm(x, weight, eps)
