"""All-reduce over symmetric memory: each rank reads all parts, none is written while it is read."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

_KEPT = {}


def run(x, group=None):
    group = group or dist.group.WORLD
    place = group.group_name, x.shape
    if place not in _KEPT:
        buffer = symmetric.empty(x.shape, dtype=x.dtype, device=x.device)
        _KEPT[place] = buffer, symmetric.rendezvous(buffer, group.group_name)
    buffer, memory = _KEPT[place]
    buffer.copy_(x)
    memory.barrier()
    total = torch.zeros_like(x)
    for rank in range(memory.world_size):
        total += memory.get_buffer(rank, x.shape, x.dtype)
    memory.barrier()
    return total
