"""Takes the process's own choice of precision."""

import torch


def run(a, b):
    return torch.matmul(a, b)
