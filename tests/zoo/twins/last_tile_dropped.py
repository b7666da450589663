"""Sums over the partial tile too."""

import torch


def run(x, weight, eps):
    wide = x.float()
    whole = x.shape[1]
    mean = wide[:, :whole].square().sum(-1, keepdim=True) / x.shape[1]
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
