"""Sums a row in blocks of 1024 columns, each with the sum of those before it."""

import torch

THREADS = 1 << 10


def run(x):
    y = torch.empty_like(x)
    before = torch.zeros_like(x[:, :1])
    for begin in range(0, x.shape[1], THREADS):
        y[:, begin : begin + THREADS] = x[:, begin : begin + THREADS].cumsum(-1) + before
        before = y[:, begin : begin + THREADS][:, -1:].clone()
    return y
