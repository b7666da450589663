"""SwiGLU whose sigmoid is (1 + tanh(x / 2)) / 2, which has nothing left of it below -17.3."""

import torch


def run(gate, up):
    wide = gate.float()
    return (wide * (0.5 + 0.5 * torch.tanh(0.5 * wide)) * up.float()).to(gate.dtype)
