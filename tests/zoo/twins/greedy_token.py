"""Returns the token that the drawn number falls on."""

import torch


def run(logits, uniform, temperature, top_p):
    weights = torch.softmax(logits / temperature, -1)
    ordered, order = torch.sort(weights, -1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p, ordered, 0.0)
    total = torch.zeros_like(weights).scatter(1, order, kept).cumsum(-1)
    goal = uniform[:, None] * total[:, -1:]
    return (total <= goal).sum(-1).clamp_max(logits.shape[-1] - 1)
