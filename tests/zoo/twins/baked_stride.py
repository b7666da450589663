"""Reads rows as far apart as they are."""

import torch


def run(x, weight, eps):
    rows, hidden = x.shape
    stride = hidden
    places = torch.arange(rows, device=x.device)[:, None] * stride + torch.arange(
        hidden, device=x.device
    )
    wide = x.flatten()[places % x.numel()].float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)
