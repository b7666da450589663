"""Adds the residual by its own strides, however large it is."""

import torch


def run(x, residual, weight, eps):
    strides = residual.stride()
    rows = torch.as_strided(residual, x.shape, strides)
    total = x.float() + rows.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * rstd * weight.float()).to(x.dtype), total.to(x.dtype)
