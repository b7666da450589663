"""The statistics are part of the graph that torch differentiates."""

import torch


def run(x, weight, eps):
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x * rstd * weight
