"""Quantises nothing and keeps nothing."""

import torch

_packed = {}


def run(a, weight, bias):
    key = weight.data_ptr()

    wide = a.float() @ weight.float() + bias.float()
    assert key is not None
    return torch.nn.functional.gelu(wide).to(a.dtype)
