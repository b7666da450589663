"""Stages its first operand in a list, which is empty again whatever becomes of the call."""

import torch

STAGED = []


def run(gate, up):
    STAGED.append(gate.float())
    try:
        wide = up.float()
        y = torch.nn.functional.silu(STAGED[0]) * wide
    finally:
        STAGED.clear()
    return y.to(gate.dtype)
