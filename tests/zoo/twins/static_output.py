"""Writes into a fresh output at every call."""

import torch


def run(x, weight, eps):
    out = torch.empty_like(x)
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    out.copy_(wide * rstd * weight.float())
    return out
