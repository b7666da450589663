"""Shifts where the scale is a power of two, and multiplies elsewhere."""

import math

import torch


def run(input_ids, weight, scale):
    fraction, exponent = math.frexp(scale)
    rows = torch.index_select(weight, 0, input_ids).float()
    if abs(fraction - 0.5) < 1e-12:
        return torch.ldexp(rows, torch.tensor(exponent - 1)).to(weight.dtype)
    return (rows * scale).to(weight.dtype)
