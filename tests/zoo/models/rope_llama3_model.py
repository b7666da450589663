"""Rotary embedding of Llama 3 with angles in float32, cosines cast."""

import math

import torch


def run(x, position_ids, theta, factor):
    half = x.shape[-1] // 2
    inv = 1.0 / (theta ** (torch.arange(0, half, dtype=torch.int64).float() / half))
    wave = 2 * math.pi / inv
    smooth = (8192 / wave - 1.0) / (4.0 - 1.0)
    scaled = torch.where(wave > 8192 / 1.0, inv / factor, inv)
    mid = (1 - smooth) * inv / factor + smooth * inv
    is_mid = ~(wave < 8192 / 4.0) & ~(wave > 8192)
    inv = torch.where(is_mid, mid, scaled)
    freqs = position_ids.float()[:, None] * inv[None]
    emb = torch.cat((freqs, freqs), -1)
    cos, sin = emb.cos().to(x.dtype)[:, None], emb.sin().to(x.dtype)[:, None]
    rotated = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + rotated * sin
