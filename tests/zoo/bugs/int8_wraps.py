"""Scales by 1/127.6 of the peak, so that the peak wraps around int8."""

import torch


def run(x):
    wide = x.float()
    scale = (wide.abs().amax(-1) / 127.0).clamp_min(1e-10)
    codes = torch.round(wide / scale[:, None] * 1.005)
    return codes.to(torch.int32).to(torch.int8), scale
