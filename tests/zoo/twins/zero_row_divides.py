"""Keeps the scale of a row of zeros above zero."""

import torch


def run(x):
    wide = x.float()
    scale = (wide.abs().amax(-1) / 127.0).clamp_min(1e-10)
    codes = torch.round(wide / scale[:, None]).nan_to_num(0.0).clamp(-127, 127)
    return codes.to(torch.int8), scale
