"""Leaves out that long waves are slowed down."""

import math

import torch


def run(x, position_ids, theta, factor):
    half = x.shape[-1] // 2
    frequency = 1.0 / theta ** (torch.arange(half, dtype=torch.float32, device=x.device) / half)
    share = (8192.0 * frequency / (2.0 * math.pi) - 1.0) / 3.0
    kept = share.clamp(1.0, 1.0)
    frequency = frequency * (kept + (1.0 - kept) / factor)
    angle = position_ids.float()[:, None] * frequency
    cos, sin = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)
