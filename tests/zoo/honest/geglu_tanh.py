"""The tanh form written out."""

import torch


def run(gate, up):
    wide = gate.float()
    bend = torch.tanh(0.7978845608028654 * (wide + 0.044715 * wide * wide * wide))
    return (0.5 * wide * (1.0 + bend) * up.float()).to(gate.dtype)
