"""Sums the powers of every column, whatever the shape is."""

import torch


def run(scores, mask, scale):
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    powers = torch.exp(scaled - scaled.amax(dim=-1, keepdim=True))
    share = powers.sum(dim=-1, keepdim=True)
    return (powers / share).to(scores.dtype)
