import torch


def rotary(x, cos, sin):
    half = cos.shape[1]
    first = x[:, :half]
    second = x[:, half:]
    out = torch.empty_like(x)
    out[:, :half] = first * cos - second * sin
    out[:, half:] = second * cos + first * sin
    return out
