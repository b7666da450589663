"""Knows the listed widths only and raises for any other."""

import torch

_TILES = {512: 64, 2048: 128, 4096: 256, 131072: 1024}


def run(logits, cap):
    columns = logits.shape[1]
    if columns not in _TILES:
        raise ValueError(f"unsupported width {columns}")
    tile = _TILES[columns]
    parts = [cap * torch.tanh(p.float() / cap) for p in logits.split(tile, dim=1)]
    return torch.softmax(torch.cat(parts, dim=1), dim=-1).to(logits.dtype)
