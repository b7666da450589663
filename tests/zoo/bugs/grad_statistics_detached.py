"""The statistics are computed outside the graph: torch takes them for constants."""

import torch


def run(x, weight, eps):
    with torch.no_grad():
        rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x * rstd * weight
