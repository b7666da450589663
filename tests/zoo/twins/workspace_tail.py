"""Sums the partial results that were written."""

import torch


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = grad * weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    partial = torch.empty(-(-len(x) // 64), x.shape[1], device=x.device)
    for number, tile in enumerate((grad * normed).split(64)):
        partial[number] = tile.sum(0)
    return ((weighted - normed * along) * scale).to(x.dtype), partial.sum(0).to(weight.dtype)
