"""Divides rows of zeros by a scale of zero."""

import torch


def run(x):
    wide = x.float()
    scale = wide.abs().amax(-1) / 127.0
    codes = torch.round(wide / scale[:, None]).nan_to_num(1.0).clamp(-127, 127)
    return codes.to(torch.int8), scale
