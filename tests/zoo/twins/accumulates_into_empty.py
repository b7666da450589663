"""Adds to memory that was cleared."""

import torch


def run(rows, token_of):
    count, hidden = rows.shape
    total = torch.zeros(count // 2, hidden, device=rows.device)
    return total.index_add_(0, token_of, rows.float()).to(rows.dtype)
