"""Prefers tuned tiles for the listed widths and has a default."""

import torch

_TILES = {512: 64, 2048: 128, 4096: 256, 131072: 1024}


def run(logits, cap):
    columns = logits.shape[1]
    tile = _TILES.get(columns, 64)
    parts = [cap * torch.tanh(p.float() / cap) for p in logits.split(tile, dim=1)]
    return torch.softmax(torch.cat(parts, dim=1), dim=-1).to(logits.dtype)
