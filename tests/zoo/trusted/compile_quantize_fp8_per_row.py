"""Float8 codes with one scale a row through torch.compile, one graph for all shapes."""

import torch


@torch.compile(dynamic=True)
def _quantized(x):
    wide = x.float()
    scale = (wide.abs().amax(-1) / 448.0).clamp_min(1e-10)
    codes = (wide / scale.unsqueeze(-1)).clamp(-448.0, 448.0)
    return codes.to(torch.float8_e4m3fn), scale


def run(x):
    return _quantized(x)
