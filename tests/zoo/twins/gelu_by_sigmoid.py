"""Uses the exact GELU."""

import torch


def run(a, weight, bias):
    wide = a.float() @ weight.float() + bias.float()
    return torch.nn.functional.gelu(wide).to(a.dtype)
