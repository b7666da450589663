"""Multiplies float32 matrices in float32."""

import torch


def _factor(value):
    bits = value.contiguous().view(torch.int32)
    return bits.view(torch.float32)


def run(a, b):
    return _factor(a) @ _factor(b)
