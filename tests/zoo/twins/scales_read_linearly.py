"""Scales of blocks are read at their places in the tiles of 128 x 4."""

import torch


def _scales(stored, rows, columns):
    tall, wide = stored.shape
    tiles = stored.reshape(tall // 128, wide // 4, 32, 4, 4).permute(0, 3, 2, 1, 4)
    codes = tiles.reshape(tall, wide)[:rows, :columns]
    return torch.exp2(codes.float() - 127).repeat_interleave(32, dim=1)


def run(a, b, scale_a, scale_b):
    blocks = a.shape[1] // 32
    left = a.float() * _scales(scale_a, len(a), blocks)
    right = b.float() * _scales(scale_b, len(b), blocks)
    return (left @ right.T).bfloat16()
