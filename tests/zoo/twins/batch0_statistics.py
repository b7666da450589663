"""Normalises every image by its own variance."""

import torch


def run(x, weight, bias, eps):
    wide = x.float().unflatten(1, (32, -1)).flatten(2)
    centred = wide - wide.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    y = (centred * torch.rsqrt(variance + eps)).reshape(x.shape)
    return (y * weight.float()[:, None] + bias.float()[:, None]).to(x.dtype)
