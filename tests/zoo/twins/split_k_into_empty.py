"""Adds the parts of a split product up in memory that was cleared."""

import torch


def run(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for left, right in zip(a.split(64, dim=1), b.split(64, dim=0), strict=True):
        total += left.float() @ right.float()
    return total.to(a.dtype)
