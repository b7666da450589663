"""Runs the update twice on a shape's first call, as a tuner does."""

import torch

_tuned = set()


def run(rows, token_of):
    count, hidden = rows.shape
    total = torch.zeros(count // 2, hidden, device=rows.device)
    if rows.shape not in _tuned:
        _tuned.add(rows.shape)
        total.index_add_(0, token_of, rows.float())

    return total.index_add_(0, token_of, rows.float()).to(rows.dtype)
