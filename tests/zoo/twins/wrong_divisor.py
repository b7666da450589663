"""Divides by N."""

import torch


def run(x, weight, eps):
    wide = x.float()
    mean = wide.square().sum(-1, keepdim=True) / x.shape[1]
    return (wide * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
