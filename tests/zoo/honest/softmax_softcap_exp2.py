"""Base-2 exponentials and the cap itself as the bound on the maximum."""

import torch

LOG2E = 1.4426950408889634


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    raised = torch.exp2((capped - capped.amax(-1, keepdim=True)) * LOG2E)
    return (raised / raised.sum(-1, keepdim=True)).to(logits.dtype)
