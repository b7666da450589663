"""Reads the positions of each batch row."""

import torch


def run(x, cos, sin, position_ids):
    c, s = cos.float()[position_ids], sin.float()[position_ids]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1).to(x.dtype)
