"""Two passes written out, rounded once."""

import torch


def run(x, weight, bias, eps):
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (centred * rstd * weight.float() + bias.float()).to(x.dtype)
