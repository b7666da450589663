"""All-reduce by a functional collective: all parts are gathered, and summed once they are there."""

import torch
import torch.distributed as dist


def run(x, group=None):
    group = group or dist.group.WORLD
    begun = torch.ops._c10d_functional.all_gather_into_tensor(x, group.size(), group.group_name)
    parts = torch.ops._c10d_functional.wait_tensor(begun)
    total = torch.zeros_like(x)
    for part in parts.view(group.size(), *x.shape):
        total = total + part
    return total
