"""Reads the clock and leaves it alone."""

import time

import torch

_start = time.perf_counter()


def run(x, weight, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)
