"""Online soft-max over tiles, with rescaling."""

import torch


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    peak = torch.full_like(capped[:, :1], float("-inf"))
    total = torch.zeros_like(peak)
    for tile in capped.split(64, dim=1):
        raised = torch.maximum(peak, tile.amax(1, keepdim=True))
        total = total * torch.exp(peak - raised) + torch.exp(tile - raised).sum(1, keepdim=True)
        peak = raised
    return (torch.exp(capped - peak) * (1.0 / total)).to(logits.dtype)
