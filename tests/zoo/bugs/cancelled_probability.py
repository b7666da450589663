"""Rounds the probability to bfloat16 before subtracting one."""

import torch


def run(logits, targets):
    p = torch.softmax(logits.float(), dim=-1).to(logits.dtype)
    grad = p.float()
    grad.scatter_add_(1, targets[:, None], -torch.ones_like(targets, dtype=grad.dtype)[:, None])
    return grad.to(logits.dtype)
