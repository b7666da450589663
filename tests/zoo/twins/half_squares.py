"""Squares in float32."""

import torch


def run(x, weight, eps):
    squares = x.square()
    rstd = torch.rsqrt(squares.mean(-1, keepdim=True) + eps)
    return x * rstd * weight
