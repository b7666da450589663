"""RMSNorm of Gemma: scaled in float32, cast once."""

import torch


def run(x, weight, eps):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (h * weight.float()).type_as(x)
