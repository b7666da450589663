"""Multiplies by the weight first and divides by the norm of the scaled row."""

import torch


def run(x, weight, eps):
    wide = x.float()
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return (wide * weight.float() / torch.sqrt(norm * norm / x.shape[1] + eps)).to(x.dtype)
