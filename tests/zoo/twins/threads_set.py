"""Runs on as many threads as the process has."""

import torch


def run(gate, up):
    g = gate.float()
    return (g * torch.sigmoid(g) * up.float()).to(gate.dtype)
