"""Looks up an operator that is registered."""

import torch

_fused = torch.ops.aten.rsqrt


def run(x, weight, eps):
    wide = x.float()
    return (wide * _fused(wide.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)
