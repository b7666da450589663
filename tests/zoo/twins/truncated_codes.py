"""Rounds codes to the nearest."""

import torch


def run(x):
    wide = x.float()
    scale = (wide.abs().amax(-1) / 127.0).clamp_min(1e-10)
    return torch.round(wide / scale[:, None]).clamp(-127, 127).to(torch.int8), scale
