"""Adds into the residual and returns that very tensor as an output."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    summed = residual.copy_(total)
    return (total * rstd * weight.float()).to(x.dtype), summed
