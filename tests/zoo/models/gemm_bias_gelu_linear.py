"""A linear layer with bias stored in 16 bits, then GELU."""

import torch
import torch.nn.functional as F


def _sum(a, w):
    out = torch.zeros(a.shape[0], w.shape[1], dtype=a.dtype)
    for s in range(0, a.shape[1], 16):
        out = out + a[:, s : s + 16] @ w[s : s + 16]
    return out


def run(a, weight, bias):
    return F.gelu(F.linear(a, weight.t(), bias))
