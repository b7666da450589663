"""Leaves the operands to the tensor cores, which read TF32's bits of them and cut off the rest."""

import torch


def cut(x):
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def run(a, b):
    return cut(a) @ cut(b)
