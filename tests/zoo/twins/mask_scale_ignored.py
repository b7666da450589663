"""Uses the given scale."""

import torch


def run(scores, mask, scale):
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)
