"""Multiplication by 1 / scale."""

import torch


def run(x):
    wide = x.float()
    scale = torch.clamp(wide.abs().amax(-1) * (1.0 / 448.0), min=1e-10)
    scaled = wide * (1.0 / scale)[:, None]
    return scaled.clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale
