"""Rounds the operands to TF32, as tensor cores do."""

import torch


def tf32(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def run(a, b):
    return tf32(a) @ tf32(b)
