"""Pads such widths to a multiple of 8."""

import torch


def run(gate, up):
    width = gate.shape[1]
    padded = [torch.nn.functional.pad(t.float(), (0, -width % 8)) for t in (gate, up)]
    return (torch.nn.functional.silu(padded[0]) * padded[1])[:, :width].to(gate.dtype)
