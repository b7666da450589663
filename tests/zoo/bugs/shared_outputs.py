"""Returns both outputs in one buffer, the second written over the first."""

import torch


def run(x, residual, weight, eps):
    buffer = torch.empty(2, *x.shape, dtype=x.dtype, device=x.device)
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    y, summed = buffer[0], buffer[0]
    y.copy_(total * rstd * weight.float())
    summed.copy_(total)
    return y, summed
