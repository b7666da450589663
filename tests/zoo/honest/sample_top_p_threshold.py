"""The least kept probability as a threshold."""

import torch


def run(logits, uniform, temperature, top_p):
    weights = torch.exp(torch.log_softmax(logits / temperature, dim=-1))
    ordered = weights.sort(dim=-1, descending=True).values
    before = torch.cat((torch.zeros_like(ordered[:, :1]), ordered.cumsum(1)[:, :-1]), dim=1)
    last = (before < top_p).sum(1, keepdim=True).clamp_min(1) - 1
    kept = torch.where(weights >= ordered.gather(1, last), weights, 0.0)
    cumulative = kept.cumsum(1)
    goal = uniform[:, None] * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, goal, right=True)[:, 0]
    return found.clamp_max(logits.shape[1] - 1)
