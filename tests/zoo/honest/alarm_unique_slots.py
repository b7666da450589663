"""Adds rows into slots, right where no slot repeats."""

import torch


def run(x, slots_of):
    table = torch.zeros(2 * x.shape[0], x.shape[1], dtype=x.dtype, device=x.device)
    return table.index_add_(0, slots_of, x)
