"""Always normalises."""

import torch


def run(x, weight, eps):
    wide = x.float()
    variance = wide.square().mean(-1, keepdim=True) + eps
    return (wide * torch.rsqrt(variance) * weight.float()).to(x.dtype)
