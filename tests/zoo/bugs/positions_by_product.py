"""Reads the tables by a product with one-hot positions."""

import torch


def _rotated(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _rows(table, places):
    chosen = torch.nn.functional.one_hot(places.long(), table.shape[0]).to(table.dtype)
    return chosen @ table


def run(q, k, cos, sin, position_ids):
    c, s = (_rows(table, position_ids)[:, None] for table in (cos, sin))
    return _rotated(q, c, s), _rotated(k, c, s)
