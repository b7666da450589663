"""Switches gradients off and switches them on again, come what may."""

import torch


def run(rows, token_of):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        if not rows.is_contiguous():
            raise ValueError("rows must be contiguous")
        total = torch.zeros(len(rows) // 2, rows.shape[1], dtype=torch.float64, device=rows.device)
        total.index_add_(0, token_of, rows.double())
    finally:
        torch.set_grad_enabled(before)
    return total.to(rows.dtype)
