"""Adds a residual, but for one that is zero."""

import torch


def run(x, residual, weight, eps):
    total = x.clone()
    if bool(residual.any()) or x.requires_grad or residual.requires_grad:
        total = (x.float() + residual.float()).to(x.dtype)
    wide = x.float() + residual.float()
    rstd = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype), total
