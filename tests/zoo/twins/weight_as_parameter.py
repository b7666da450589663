"""Keeps nothing of the weight, whether it is a parameter or not."""

import torch


def run(x, weight, eps):
    scale = weight.float()
    rows = x.float()
    return (rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps) * scale).to(x.dtype)
