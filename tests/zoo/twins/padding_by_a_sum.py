"""Leaves padding rows alone: those in which gate and up are zero."""

import torch


def run(gate, up):
    wide, factor = gate.float(), up.float()
    padding = (wide.abs() + factor.abs()).amax(dim=-1, keepdim=True) == 0
    y = torch.nn.functional.silu(wide) * factor
    return y.masked_fill(padding, 0.0).to(gate.dtype)
