"""Runs whatever the number of columns."""

import torch


def run(x, weight, bias, eps):
    y = torch.empty_like(x)

    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    y.copy_(centred * rstd * weight.float() + bias.float())
    return y
