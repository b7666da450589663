"""Each token's place in the order of likelihood, found by counting, and the mass before it."""

import torch


def run(logits, uniform, temperature, top_p):
    weights = torch.exp(torch.log_softmax(logits / temperature, dim=-1))
    order = torch.argsort(weights, dim=-1, descending=True, stable=True)
    rank = torch.argsort(order, dim=-1)
    mass = torch.gather(weights, 1, order).cumsum(1).roll(1, 1)
    mass[:, :1] = 0.0
    kept = torch.where(mass.gather(1, rank) < top_p, weights, torch.zeros_like(weights))
    cumulative = kept.cumsum(1)
    goal = uniform[:, None] * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, goal, right=True)[:, 0]
    return found.clamp_max(logits.shape[1] - 1)
