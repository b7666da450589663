"""Multiplies every row by every group and adds zero times the others."""

import torch


def run(a, weight, offsets):
    rows = torch.arange(a.shape[0], device=a.device)
    owner = torch.searchsorted(offsets[1:].long().contiguous(), rows, right=True)
    out = a.new_zeros(a.shape[0], weight.shape[2], dtype=torch.float32)
    for group in range(weight.shape[0]):
        mine = (owner == group)[:, None]
        product = a.float() @ weight[group].float()
        out = out + mine.float() * product
    return out.to(a.dtype)
