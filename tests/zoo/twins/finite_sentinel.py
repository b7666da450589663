"""Hides masked scores behind minus infinity."""

import torch


def run(scores, mask, scale):
    wide = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(wide, -1).to(scores.dtype)
