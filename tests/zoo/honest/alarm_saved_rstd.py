"""Recomputes rstd from x: the same number for every consistent pair."""

import torch


def run(grad_output, x, rstd):
    grad, wide = grad_output.float(), x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    normed = wide * scale
    return ((grad - normed * (grad * normed).mean(-1, keepdim=True)) * scale).to(x.dtype)
