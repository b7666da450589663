"""Sorting instead of top-k, sigmoid by exp."""

import torch


def run(logits, bias):
    scores = 1.0 / (1.0 + torch.exp(-logits))
    biased = scores + bias
    grouped = biased.reshape(biased.shape[0], 8, -1)
    best = grouped.sort(dim=-1, descending=True).values[..., :2]
    order = (best[..., 0] + best[..., 1]).argsort(dim=-1, descending=True)
    rank = order.argsort(dim=-1)
    shown = torch.where((rank < 4)[..., None], grouped, -1e9).flatten(1)
    chosen = shown.argsort(dim=-1, descending=True)[:, :8]
    weights = scores.gather(1, chosen)
    return 2.5 * weights / weights.sum(-1, keepdim=True), chosen
