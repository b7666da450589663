import torch
from torch.nn import functional as F


def run(x, up):
    y = torch.zeros_like(x)
    for at in range(0, 2048, 256):
        y[:, at : at + 256] = (
            F.silu(x[:, at : at + 256].float()) * up[:, at : at + 256].float()
        ).to(x.dtype)
    return y
