"""RMSNorm of Llama: normalized in float32, cast, then scaled in 16 bits."""

import torch


def run(x, weight, eps):
    h = x.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return weight * h.to(x.dtype)
