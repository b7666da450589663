"""Pads the experts to a power of two with logits of zero."""

import torch


def run(logits):
    tokens, experts = logits.shape
    width = 1 << (experts - 1).bit_length()
    padded = logits.new_full((tokens, width), 0.0)
    padded[:, :experts] = logits
    weights, chosen = torch.topk(torch.softmax(padded, -1), 2, -1)
    return weights / weights.sum(-1, keepdim=True), chosen
