"""Takes the variance from centred values."""

import torch


def run(x, weight, bias, eps):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    variance = (wide - mean).square().mean(-1, keepdim=True)
    rstd = torch.rsqrt(variance.clamp_min(0.0) + eps)
    return ((wide - mean) * rstd * weight.float() + bias.float()).to(x.dtype)
