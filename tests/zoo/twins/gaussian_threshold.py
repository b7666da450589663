"""Seeks the largest logits among all."""

import torch


def run(logits, uniform, temperature, k):
    weights = torch.softmax(logits / temperature, -1)
    floor = float("-inf")
    able = logits.where(logits >= floor, float("-inf"))
    least = torch.topk(able, min(k, logits.shape[-1]), -1).values[:, -1:]
    kept = torch.where(able >= least, weights, 0.0) * (able > float("-inf"))
    total = kept.cumsum(-1)
    goal = uniform[:, None] * total[:, -1:]
    return (total <= goal).sum(-1).clamp_max(logits.shape[-1] - 1)
