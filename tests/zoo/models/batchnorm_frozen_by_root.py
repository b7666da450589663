"""A frozen batch norm in 16 bits as convolutions take it in: divided by the root, then shifted."""

import torch


def run(x, weight, bias, mean, variance, eps):
    w, b, m, v = (t.reshape(1, -1, 1, 1) for t in (weight, bias, mean, variance))
    root = torch.sqrt(v + eps)
    return (x - m) * (w / root) + b
