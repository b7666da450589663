"""Scales the kept weights up by 1 / (1 - p)."""

import torch


def run(scores, kept, scale, p):
    weights = torch.softmax(scores.float() * scale, -1)
    return (weights * kept.float() / (1.0 - p)).to(scores.dtype)
