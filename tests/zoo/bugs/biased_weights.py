"""Takes the weights from the biased scores."""

import torch


def run(logits, bias):
    scores = torch.sigmoid(logits)
    biased = (scores + bias).unflatten(-1, (8, -1))
    groups = torch.topk(biased, 2, -1).values.sum(-1)
    kept = torch.topk(groups, 4, -1).indices
    closed = torch.ones_like(groups, dtype=torch.bool).scatter(1, kept, False)
    able = biased.masked_fill(closed[..., None], float("-inf")).flatten(1)
    chosen = torch.topk(able, 8, -1).indices
    weights = (scores + bias).gather(1, chosen)
    return weights / weights.sum(-1, keepdim=True) * 2.5, chosen
