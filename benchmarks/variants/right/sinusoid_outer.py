import torch


def run(start, like):
    half = like.shape[1]
    f = 10_000.0 ** (-torch.arange(half, dtype=torch.float32, device=like.device) / half)
    return torch.outer(start.float(), f).sin_() * like
