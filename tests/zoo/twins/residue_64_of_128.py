"""Sums all columns whatever their number."""

import torch


def run(x, weight, eps):
    wide = x.float()
    columns = x.shape[1]
    kept = columns
    mean = wide[:, :kept].square().sum(-1, keepdim=True) / columns
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
