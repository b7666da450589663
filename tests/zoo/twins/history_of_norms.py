"""Keeps a running mean of the roots, one number a call, of the last hundred calls."""

from collections import deque

import torch

_SEEN = deque(maxlen=100)


def run(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    _SEEN.append(rstd)
    return (wide * rstd * weight.float()).to(x.dtype)
