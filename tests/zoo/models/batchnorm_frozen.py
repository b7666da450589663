"""A frozen batch norm all in 16 bits: a scale and a shift for each channel."""

import torch


def run(x, weight, bias, mean, variance, eps):
    w, b, m, v = (t.reshape(1, -1, 1, 1) for t in (weight, bias, mean, variance))
    scale = w * torch.rsqrt(v + eps)
    shift = b - m * scale
    return x * scale + shift
