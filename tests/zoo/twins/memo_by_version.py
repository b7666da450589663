"""Memoises nothing."""

import torch


def _compute(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


def run(gate, up):
    return _compute(gate, up)
