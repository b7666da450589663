"""Rotary embedding in the NeoX layout through torch.compile, one graph for all shapes."""

import torch


def _rotated(x, cos, sin):
    wide = x.float()
    half = x.shape[-1] // 2
    turned = torch.cat((-wide[..., half:], wide[..., :half]), dim=-1)
    return (wide * cos + turned * sin).to(x.dtype)


@torch.compile(dynamic=True)
def _rope(q, k, cos, sin, position_ids):
    c, s = (table[position_ids].repeat(1, 2).unsqueeze(1) for table in (cos, sin))
    return _rotated(q, c, s), _rotated(k, c, s)


def run(q, k, cos, sin, position_ids):
    return _rope(q, k, cos, sin, position_ids)
