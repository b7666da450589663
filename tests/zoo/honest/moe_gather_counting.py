"""Counting sort by one-hot prefix sums."""

import torch


def run(x, experts_of):
    flat = experts_of.reshape(-1)
    hot = torch.nn.functional.one_hot(flat, 16)
    counts = hot.sum(0)
    start = counts.cumsum(0) - counts
    place = start[flat] + (hot.cumsum(0) - hot).gather(1, flat[:, None])[:, 0]
    source = torch.empty_like(flat)
    source[place] = torch.arange(len(flat), device=flat.device)
    return x.repeat_interleave(2, dim=0)[source], source, counts
