"""Waits for nothing and lets others wait."""

import torch


def run(gate, up):
    g = gate.float()
    return (torch.nn.functional.gelu(g, approximate="tanh") * up.float()).to(gate.dtype)
