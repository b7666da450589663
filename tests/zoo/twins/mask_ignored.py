"""Applies the mask."""

import torch


def run(scores, mask, scale):
    scaled = scores.float() * scale
    scaled = scaled.masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)
