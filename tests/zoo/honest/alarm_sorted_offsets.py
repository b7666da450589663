"""Differences of prefix sums in float64, right where offsets are sorted."""

import torch


def run(x, offsets):
    prefix = torch.nn.functional.pad(x.double().cumsum(0), (0, 0, 1, 0))
    return (prefix[offsets[1:]] - prefix[offsets[:-1]]).to(x.dtype)
