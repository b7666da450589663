"""Scales in memory of its own, whatever the size."""

import torch


def run(gate, up):
    wide = torch.nn.functional.silu(gate.float()) * up.float()
    return wide.to(gate.dtype)
