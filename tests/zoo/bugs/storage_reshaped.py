"""Splits heads by as_strided with the strides of contiguous tensors, where a view failed."""

import torch


def _halves(x):
    tokens, heads, width = x.shape
    pairs = torch.as_strided(
        x, (tokens, heads, 2, width // 2), (heads * width, width, width // 2, 1)
    )
    return pairs[:, :, 0].float(), pairs[:, :, 1].float()


def _rotate(x, cos, sin):
    first, second = _halves(x)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat(turned, dim=-1).to(x.dtype)


def run(q, k, cos, sin, position_ids):
    c, s = cos[position_ids].unsqueeze(1), sin[position_ids].unsqueeze(1)
    return _rotate(q, c, s), _rotate(k, c, s)
