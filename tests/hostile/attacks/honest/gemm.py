import torch


def right(a, b):
    left, other = a.float(), b.float()
    return torch.matmul(left, other).to(a.dtype)
