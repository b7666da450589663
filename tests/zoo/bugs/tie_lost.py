"""Finds the second expert among those with other weights than the first."""

import torch


def run(logits):
    weights = torch.softmax(logits, -1)
    first = weights.argmax(-1, keepdim=True)
    rest = weights.where(weights < weights.gather(1, first), -1.0)
    second = rest.argmax(-1, keepdim=True)
    chosen = torch.cat((first, second), -1)
    picked = weights.gather(1, chosen)
    return picked / picked.sum(-1, keepdim=True), chosen
