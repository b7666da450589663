"""Keeps a factor for each scale that it has met."""

import torch

FACTORS = {}


def run(scores, mask, scale):
    factor = FACTORS.setdefault(float(scale).hex(), float(scale))
    scaled = (scores.float() * factor).masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)
