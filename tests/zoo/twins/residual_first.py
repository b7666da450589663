"""Keeps the sum that it normalises and writes it."""

import torch


def run(x, residual, weight, eps, y=None, new_residual=None):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device) if y is None else y
    if new_residual is None:
        new_residual = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    y.copy_(total * rstd * weight.float())
    new_residual.copy_(total)
    return y, new_residual
