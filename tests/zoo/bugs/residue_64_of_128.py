"""Skips the last 64 columns of a sum where their number is 64 modulo 128."""

import torch


def run(x, weight, eps):
    wide = x.float()
    columns = x.shape[1]
    kept = columns - 64 if columns % 128 == 64 and columns > 64 else columns
    mean = wide[:, :kept].square().sum(-1, keepdim=True) / kept
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
