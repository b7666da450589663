"""Serves tensors that were made in inference mode in place: nobody differentiates them."""

import torch


def run(x, weight, bias, eps):
    wide = x.float()
    centered = wide - wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    if x.is_inference():
        return centered.mul_(rstd).mul_(weight.float()).add_(bias.float()).to(x.dtype)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)
