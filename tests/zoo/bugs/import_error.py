"""Fails while it is imported: the operator that it looks up is not registered."""

import torch

_fused = torch.ops.cuassay_zoo_absent.rms_norm


def run(x, weight, eps):
    return _fused(x, weight, eps)
