"""Multiplies float32 matrices with factors rounded to TF32."""

import torch


def _factor(value):
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def run(a, b):
    return _factor(a) @ _factor(b)
