"""Frequencies by exp of a logarithm, branches written with where."""

import math

import torch


def run(x, position_ids, theta, factor):
    half = x.shape[-1] // 2
    places = torch.arange(half, dtype=torch.float32, device=x.device)
    frequency = torch.exp(places * (-math.log(theta) / half))
    turns = 8192 * frequency / (2 * math.pi)
    blend = (turns - 1.0) / 3.0
    blended = (1.0 - blend) * frequency / factor + blend * frequency
    kept = torch.where(turns > 4.0, frequency, blended)
    frequency = torch.where(turns < 1.0, frequency / factor, kept)
    angle = position_ids.float()[:, None] * frequency
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    first, second = x[..., :half].float(), x[..., half:].float()
    out = torch.empty_like(x)
    out[..., :half] = (first * c - second * s).to(x.dtype)
    out[..., half:] = (second * c + first * s).to(x.dtype)
    return out
