# problem: gemm
# class: precision
# wrong: sums of products, kept in bfloat16
import torch


def right(a, b):
    return (a.float() @ b.float()).to(a.dtype)


def run(a, b):
    y = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    for k in range(0, a.shape[1], 16):
        y = (y.float() + a[:, k : k + 16].float() @ b[k : k + 16].float()).to(a.dtype)
    return y
