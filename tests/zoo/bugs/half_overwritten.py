"""Writes the first rotated half before it reads the first half for the second one."""

import math

import torch


def _frequency(half, theta, factor, device):
    frequency = theta ** -(torch.arange(half, device=device, dtype=torch.float64) / half)
    wavelength = 2.0 * math.pi / frequency
    kept = ((8192.0 / wavelength - 1.0) / 3.0).clamp(0.0, 1.0)
    return frequency * (kept + (1.0 - kept) / factor)


def run(x, position_ids, theta, factor, y=None):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device) if y is None else y
    half = x.shape[-1] // 2
    angle = position_ids.double().unsqueeze(-1) * _frequency(half, theta, factor, x.device)
    cos, sin = torch.cos(angle).float().unsqueeze(1), torch.sin(angle).float().unsqueeze(1)
    first, second = x[..., :half], x[..., half:]
    y[..., :half] = first.float() * cos - second.float() * sin
    y[..., half:] = second.float() * cos + first.float() * sin
    return y
