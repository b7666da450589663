"""Reads gate and up before it writes y."""

import torch


def run(gate, up, y=None):
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device) if y is None else y
    wide, other = gate.float(), up.float()
    y.copy_(wide * torch.sigmoid(wide))
    y.copy_(wide * torch.sigmoid(wide) * other)
    return y
