"""Multiplication by 127 / amax."""

import torch


def run(x):
    wide = x.float()
    peak = wide.abs().amax(-1)
    scale = torch.clamp(peak * (1.0 / 127.0), min=1e-10)
    factor = 1.0 / scale
    return (wide * factor[:, None]).round().clamp(-127, 127).to(torch.int8), scale
