"""Keeps a constant on the device of its first call."""

import torch

_one = None


def run(gate, up):
    global _one
    if _one is None:
        _one = torch.ones(1, device=gate.device)
    wide = gate.float()
    return (wide / (_one + torch.exp(-wide)) * up.float()).to(gate.dtype)
