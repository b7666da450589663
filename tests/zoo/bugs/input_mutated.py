"""Uses the residual's memory as scratch for the sum, which the caller still needs."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    residual.copy_(total)
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * rstd * weight.float()).to(x.dtype), residual.clone()
