"""All-reduce by torch's operators on symmetric memory: the sum, and the parts of the others."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

_KEPT = {}


def run(x, group=None):
    group = group or dist.group.WORLD
    name = group.group_name
    place = name, x.shape
    if place not in _KEPT:
        made = [symmetric.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2)]
        _KEPT[place] = [(one, symmetric.rendezvous(one, name)) for one in made]
    (first, _), (second, memory) = _KEPT[place]
    half = x.shape[0] // 2
    first.copy_(x)
    first[half:] = 0
    total = torch.ops.symm_mem.one_shot_all_reduce(first, "sum", name)
    second.copy_(x)
    memory.barrier()
    for part in torch.ops.symm_mem.get_remote_tensors(second, name):
        total[half:] += part[half:]
    # The next sum waits for all ranks before this memory is written again.
    return total
