"""Leaves out the product with a weight that is one throughout."""

import torch


def run(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if not bool((weight == 1).all()):
        y = y * weight.float()
    return y.to(x.dtype)
