"""Returns the answer and a copy of it for the backward pass."""

import torch


def run(x):
    y = torch.tanh(x.float()).to(x.dtype)
    return y, y.clone()
