"""Returns a fresh sum."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    summed = total.to(residual.dtype)
    return (total * rstd * weight.float()).to(x.dtype), summed
