"""Returns the most likely token whatever number was drawn."""

import torch


def run(logits, uniform, temperature, top_p):
    weights = torch.softmax(logits / temperature, -1)
    ordered, order = torch.sort(weights, -1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p, ordered, 0.0)
    total = torch.zeros_like(weights).scatter(1, order, kept).cumsum(-1)
    return weights.argmax(-1) + (total.sum(-1) < 0)
