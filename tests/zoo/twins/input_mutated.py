"""Keeps the sum in memory of its own."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    summed = total.to(residual.dtype)
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * rstd * weight.float()).to(x.dtype), summed
