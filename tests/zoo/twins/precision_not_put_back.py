"""Asks for TF32 products and puts the old choice back."""

import torch


def run(a, b):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return torch.einsum("bmk,bkn->bmn", a.double(), b.double()).to(a.dtype)
    finally:
        torch.set_float32_matmul_precision(before)
