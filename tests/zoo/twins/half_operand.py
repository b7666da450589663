"""Keeps both factors of a float32 product."""

import torch


def run(a, b):
    return torch.bmm(a, b)
