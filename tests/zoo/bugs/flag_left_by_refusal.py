"""Switches gradients off and forgets to switch them on again when it refuses an input."""

import torch


def run(rows, token_of):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    if not rows.is_contiguous():
        raise ValueError("rows must be contiguous")
    total = torch.zeros(len(rows) // 2, rows.shape[1], dtype=torch.float64, device=rows.device)
    total.index_add_(0, token_of, rows.double())
    torch.set_grad_enabled(before)
    return total.to(rows.dtype)
