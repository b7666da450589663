"""Applies the mask of each row."""

import torch


def run(scores, mask, scale):
    blocked = ~mask
    scaled = (scores.float() * scale).masked_fill(blocked, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)
