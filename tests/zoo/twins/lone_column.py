"""Masked soft-max that takes a shorter way where a row keeps one column: it has all the weight."""

import torch


def run(scores, mask, scale):
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    y = torch.softmax(scaled, dim=-1).to(scores.dtype)
    lone = mask.sum(dim=-1) == 1
    y[lone] = mask[lone].to(y.dtype)
    return y
