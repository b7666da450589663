"""Keeps a table for each setting."""

import torch

_made = set()
_table = {}


def _angles(half, theta, factor, device):
    key = (half, theta, factor, device)
    if key not in _made:
        _made.add(key)
        _table[key] = _frequencies(half, theta, factor, device)
    return _table[key]


def _frequencies(half, theta, factor, device):
    exponent = torch.arange(half, dtype=torch.float64, device=device) / half
    plain = theta**-exponent
    wavelength = 2.0 * torch.pi / plain
    smooth = ((8192.0 / wavelength - 1.0) / 3.0).clamp(0.0, 1.0)
    return (1.0 - smooth) * plain / factor + smooth * plain


def run(x, position_ids, theta, factor):
    half = x.shape[-1] // 2
    angles = position_ids[:, None].double() * _angles(half, theta, factor, x.device)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x.double().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
