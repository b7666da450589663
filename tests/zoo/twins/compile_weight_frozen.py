"""Uses the weight where it is."""

import torch


def run(x, weight, eps):
    wide = x.float()
    gain = weight.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * gain
    return y.to(x.dtype)
