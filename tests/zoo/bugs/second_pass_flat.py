"""Uses strides in the pass for the statistics, and none in the pass that normalises."""

import torch


def _flat(x):
    return x.as_strided(x.shape, (x.shape[1], 1))


def run(x, weight, bias, eps):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt((wide - mean).square().mean(-1, keepdim=True) + eps)
    again = _flat(x).float()
    return ((again - mean) * rstd * weight.float() + bias.float()).to(x.dtype)
