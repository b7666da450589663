"""Asks for TF32 products in a call and leaves the process like that."""

import torch


def run(a, b):
    torch.set_float32_matmul_precision("high")
    return torch.einsum("bmk,bkn->bmn", a.double(), b.double()).to(a.dtype)
