"""Masks by putting negative infinity in the place of what lies behind the mask."""

import torch


def run(scores, mask, scale):
    wide = scores.float() * scale
    masked = wide.masked_fill(~mask, float("-inf"))
    masked = masked.masked_fill(~mask.any(-1, keepdim=True), float("-inf"))
    return torch.softmax(masked, -1).to(scores.dtype)
