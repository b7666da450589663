"""Writes the probabilities into fresh memory."""

import torch


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    out = torch.empty_like(logits)
    out.copy_(torch.softmax(capped, dim=-1))
    return out
