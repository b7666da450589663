"""Computes in float32, under autocast too."""

import torch


def run(x, weight, eps):
    with torch.autocast(x.device.type, enabled=False):
        rows = x.float()
        rstd = torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
        return (rows * rstd * weight.float()).to(x.dtype)
