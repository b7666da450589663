"""All parts on every rank, summed in the same order."""

import torch
import torch.distributed as dist


def run(x, group=None):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x, group=group)
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total
