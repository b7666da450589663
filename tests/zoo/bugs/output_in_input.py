"""Writes the probabilities over the logits and returns a view of them."""

import torch


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    out = logits.view(logits.shape)
    out.copy_(torch.softmax(capped, dim=-1))
    return out
