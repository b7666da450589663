"""Returns each output in memory of its own."""

import torch


def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    y, summed = torch.empty_like(x), torch.empty_like(x)
    y.copy_(total * rstd * weight.float())
    summed.copy_(total)
    return y, summed
