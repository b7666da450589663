"""Drops weights without scaling up the kept ones."""

import torch


def run(scores, kept, scale, p):
    weights = torch.softmax(scores.float() * scale, -1)
    return (weights * kept.float()).to(scores.dtype)
