"""The rotate-half form: x cos + rotate(x) sin with doubled tables."""

import torch


def _rotated(x, cos, sin):
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (wide * cos + turned * sin).to(x.dtype)


def run(q, k, cos, sin, position_ids):
    c, s = (torch.cat((t, t), dim=-1)[position_ids][:, None] for t in (cos, sin))
    return _rotated(q, c, s), _rotated(k, c, s)
