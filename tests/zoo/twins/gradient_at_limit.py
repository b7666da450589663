"""Passes no gradient at the limit itself."""

import torch


def run(x, upstream, limit):
    return torch.where(x.float().abs() < limit, upstream, 0.0).to(upstream.dtype)
