"""Draws from a generator of its own."""

import torch


def run(scores, kept, scale, p):
    own = torch.Generator().manual_seed(0)
    order = torch.randperm(len(scores), generator=own).to(
        scores.device
    )  # rows in an order that spreads load
    rows = torch.softmax(scores[order].float() * scale, dim=-1)
    spread = torch.where(kept[order], rows / (1.0 - p), 0.0)
    return torch.empty_like(spread).index_copy_(0, order, spread).to(scores.dtype)
