"""Subtracts one in float32 and rounds once."""

import torch


def run(logits, targets):
    p = torch.softmax(logits.float(), dim=-1)
    grad = p.clone()
    grad.scatter_add_(1, targets[:, None], -torch.ones_like(targets, dtype=grad.dtype)[:, None])
    return grad.to(logits.dtype)
