"""Applies the soft-cap."""

import torch


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    return torch.softmax(capped, dim=-1).to(logits.dtype)
