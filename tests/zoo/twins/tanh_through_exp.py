"""Computes tanh with the library's function, which saturates instead of overflowing."""

import torch


def _tanh(x):
    return torch.tanh(x)


def run(logits, cap):
    capped = cap * _tanh(logits.float() / cap)
    return torch.softmax(capped, dim=-1).to(logits.dtype)
