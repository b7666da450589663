"""Takes a window as long as the row for the whole row."""

import torch


def run(x, window):
    columns = x.shape[-1]
    if window >= columns:
        return torch.cumsum(x, dim=-1)
    sums = torch.cumsum(x.double(), dim=-1)
    sums[..., window:] -= sums[..., :-window].clone()
    return sums.to(x.dtype)
