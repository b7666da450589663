"""Split sums: partial sums of 8 column blocks, then their sum."""

import torch


def run(x, weight, eps):
    wide = x.float()
    parts = [p.square().sum(-1) for p in wide.tensor_split(8, dim=1)]
    rstd = torch.rsqrt(torch.stack(parts).sum(0) / x.shape[1] + eps)
    return (wide * rstd[:, None] * weight.float()).to(x.dtype)
