"""Makes float64 the default dtype of the process, to have wide constants."""

import torch

torch.set_default_dtype(torch.float64)


def run(x, weight, bias, eps):
    one = torch.ones(1, device=x.device)
    wide = x * one
    centred = wide - wide.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return (centred * torch.rsqrt(variance + eps) * weight + bias).to(x.dtype)
