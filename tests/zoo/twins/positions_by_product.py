"""Reads the tables by index."""

import torch


def _rotated(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _rows(table, places):
    return table[places]


def run(q, k, cos, sin, position_ids):
    c, s = (_rows(table, position_ids)[:, None] for table in (cos, sin))
    return _rotated(q, c, s), _rotated(k, c, s)
