"""Keeps a buffer for each base, into which a CUDA graph could write, and returns a copy."""

import torch

_buffers = {}


def run(theta):
    buffer = _buffers.setdefault(theta, torch.empty(64))
    exponents = torch.arange(64, dtype=torch.float64) / -64.0
    buffer.copy_(torch.pow(float(theta), exponents))
    return buffer.clone()
