"""Takes the largest of each row for its soft-max, wherever it is."""

import torch


def run(scores, mask, scale):
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    highest = scaled.amax(dim=-1, keepdim=True)
    powers = torch.exp(scaled - highest)
    return (powers / powers.sum(dim=-1, keepdim=True)).to(scores.dtype)
