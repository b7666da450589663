"""Switches TF32 on for every matrix product of the process when it is imported."""

import torch

torch.backends.cuda.matmul.allow_tf32 = True


def run(a, b):
    return torch.matmul(a, b)
