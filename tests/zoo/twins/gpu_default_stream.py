"""Works on the caller's stream."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


def run(x, weight, eps):
    return _norm(x, weight, eps)
