"""Adds the columns in the same order at every number of rows."""

import torch


def run(scores, kept, scale, p):
    wide = scores.float() * scale
    power = torch.exp(wide - wide.amax(-1, keepdim=True))
    columns = power.shape[1]
    first = 5 % columns
    total = torch.zeros_like(power[:, 0])
    for number in range(columns):
        total = total + power[:, (first + number) % columns]
    shares = power / total.unsqueeze(-1)
    return torch.where(kept, shares / (1.0 - p), 0.0).to(scores.dtype)
