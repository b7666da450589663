"""Keeps no answer: only the last shape, which a launch plan may depend on."""

import torch


def _norm(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)


_last = {}


def run(x, weight, eps):
    _last["shape"] = tuple(x.shape)
    return _norm(x, weight, eps)
