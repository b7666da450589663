"""Chooses its path on the device."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def run(x, weight, eps):
    return torch.where(x.abs().max() == 0.0, torch.zeros_like(x), _norm(x, weight, eps))
