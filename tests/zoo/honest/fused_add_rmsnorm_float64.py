"""Float64 inside."""

import torch


def run(x, residual, weight, eps):
    total = x.double() + residual.double()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * rstd * weight.double()).to(x.dtype), total.to(x.dtype)
