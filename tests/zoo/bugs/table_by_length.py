"""Keeps the table of angles under the length alone."""

import torch

_tables = {}


def _frequency(half, theta, device):
    key = half
    if key not in _tables:
        steps = torch.arange(half, dtype=torch.float32, device=device) / half
        _tables[key] = 1.0 / theta**steps
    return _tables[key]


def run(x, position_ids, theta, factor):
    frequency = _frequency(x.shape[-1] // 2, theta, x.device)
    kept = ((8192.0 * frequency / 6.283185307179586 - 1.0) / 3.0).clamp(0.0, 1.0)
    angle = position_ids.float()[:, None] * (frequency * (kept + (1.0 - kept) / factor))
    cos, sin = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
