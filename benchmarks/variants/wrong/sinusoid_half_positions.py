import torch


def run(start, like):
    f = 10_000.0 ** (
        -torch.arange(like.shape[1], dtype=torch.float32, device=like.device) / like.shape[1]
    )
    return torch.sin(start.half().float()[:, None] * f) * like
