"""Leaves CUDA events alone."""

import torch

_measured = torch.cuda.Event.elapsed_time


def run(gate, up):
    g = gate.float()
    return (g * torch.sigmoid(g) * up.float()).to(gate.dtype)
