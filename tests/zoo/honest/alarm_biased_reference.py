"""Rounds after every step as the reference does, in another order of operations."""

import torch


def run(logits, cap):
    capped = torch.tanh(logits * (1.0 / cap)) * cap
    raised = torch.exp(capped.float() - capped.amax(-1, keepdim=True).float())
    return (raised / raised.sum(-1, keepdim=True)).to(logits.dtype)
