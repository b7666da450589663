"""Limits its outputs to what their type holds."""

import torch


def run(x, weight, eps):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    most = torch.finfo(x.dtype).max
    return y.clamp(-most, most).to(x.dtype)
