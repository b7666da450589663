"""Keeps a buffer for each base, into which a CUDA graph could write, and returns a copy."""

import torch

_buffers = {}
_device = "cuda" if torch.cuda.is_available() else "cpu"


def run(theta):
    buffer = _buffers.setdefault(theta, torch.empty(64, device=_device))
    exponents = torch.arange(64, dtype=torch.float64, device=_device) / -64.0
    buffer.copy_(torch.pow(float(theta), exponents))
    return buffer.clone()
