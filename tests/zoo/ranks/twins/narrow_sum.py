"""The sum as it travels, in 16 bits, then the norm: what most servers do."""

import torch
import torch.distributed as dist


def run(x, residual, weight, eps, group=None):
    total = x.clone()
    dist.all_reduce(total, group=group)
    total = total.float() + residual.float()
    scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    return (total * scale * weight.float()).to(x.dtype), total.to(x.dtype)
