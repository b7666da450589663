"""The sum in float32, then the norm of the whole row."""

import torch
import torch.distributed as dist


def run(x, residual, weight, eps, group=None):
    total = x.float()
    begun = dist.all_reduce(total, group=group, async_op=True)
    added = residual.float()
    begun.wait()
    total = total + added
    scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * scale * weight.float()).to(x.dtype), total.to(x.dtype)
