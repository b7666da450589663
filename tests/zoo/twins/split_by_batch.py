"""Splits the sum of squares in 4 parts at every number of rows."""

import torch


def _sum(x):
    parts = 4
    total = torch.zeros(len(x), dtype=torch.float32, device=x.device)
    for part in x.chunk(parts, -1):
        for column in part.unbind(-1)[1:]:
            part[:, 0] += column
        total += part[:, 0]
    return total


def run(x, weight, eps):
    wide = x.float()
    mean = _sum(wide.square()) / x.shape[1]
    return (wide * torch.rsqrt(mean + eps).unsqueeze(-1) * weight.float()).to(x.dtype)
