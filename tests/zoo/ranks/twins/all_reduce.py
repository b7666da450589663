"""Sums that start early: the first half travels while the second is copied."""

import torch
import torch.distributed as dist


def run(x, group=None):
    half = x.numel() // 2
    first, second = x[:half].clone(), x[half:].clone()
    begun = dist.all_reduce(first, group=group, async_op=True)
    dist.all_reduce(second, group=group)
    begun.wait()
    return torch.cat([first, second])
