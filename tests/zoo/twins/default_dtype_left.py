"""Asks for float64 where it wants it."""

import torch


def run(x, weight, bias, eps):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return (centred * torch.rsqrt(variance + eps) * weight + bias).to(x.dtype)
