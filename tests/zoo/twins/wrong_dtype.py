"""Returns the declared dtype."""

import torch


def run(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype)
