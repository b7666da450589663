"""Seeks the largest logits above mean + 1 sigma only."""

import torch


def run(logits, uniform, temperature, k):
    weights = torch.softmax(logits / temperature, -1)
    floor = logits.mean(-1, keepdim=True) + logits.std(-1, keepdim=True)
    able = logits.where(logits >= floor, float("-inf"))
    least = torch.topk(able, min(k, logits.shape[-1]), -1).values[:, -1:]
    kept = torch.where(able >= least, weights, 0.0) * (able > float("-inf"))
    total = kept.cumsum(-1)
    goal = uniform[:, None] * total[:, -1:]
    return (total <= goal).sum(-1).clamp_max(logits.shape[-1] - 1)
