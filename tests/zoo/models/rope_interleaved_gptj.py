"""Rotary embedding of GPT-J: neighbors rotated, tables cast."""

import torch


def every_two(x):
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((-second, first), dim=-1).flatten(-2)


def run(q, k, cos, sin, position_ids):
    c = torch.repeat_interleave(cos[position_ids].to(q.dtype)[:, None, :], 2, -1)
    s = torch.repeat_interleave(sin[position_ids].to(q.dtype)[:, None, :], 2, -1)
    return q * c + every_two(q) * s, k * c + every_two(k) * s
