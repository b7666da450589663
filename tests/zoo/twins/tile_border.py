"""Carries the past into each tile of 64 steps."""

import torch


def run(x, weight, bias):
    wide, taps = x.float(), weight.float()
    past = torch.zeros_like(wide[..., :1]).expand(*x.shape[:2], 3)
    parts = []
    for tile in wide.split(64, -1):
        padded = torch.cat((past, tile), -1)
        parts.append((padded.unfold(-1, 4, 1) * taps[:, None]).sum(-1))
        past = padded[..., -3:]
    return torch.nn.functional.silu(torch.cat(parts, -1) + bias.float()[:, None]).to(x.dtype)
