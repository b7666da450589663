"""Sums of groups of rows; rows after the last group are nobody's."""

import torch


def run(x, offsets):
    places = torch.arange(len(x), device=x.device)
    owner = torch.searchsorted(offsets[1:].long().contiguous(), places, right=True)
    total = torch.zeros(len(offsets), x.shape[1], dtype=torch.float32, device=x.device)
    total.index_add_(0, owner, x.float())
    return total[:-1].to(x.dtype)
