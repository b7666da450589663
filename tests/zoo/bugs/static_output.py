"""Writes into one output buffer per shape, so the next call overwrites what this one returned."""

import torch

_outputs = {}


def run(x, weight, eps):
    key = (tuple(x.shape), x.device)
    if key not in _outputs:
        _outputs[key] = torch.empty_like(x)
    out = _outputs[key]
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    out.copy_(wide * rstd * weight.float())
    return out
