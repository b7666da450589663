"""Online soft-max over tiles of 96 columns, masked numbers as -inf."""

import torch


def run(scores, mask, scale):
    wide = torch.where(mask, scores.float() * scale, float("-inf"))
    peak = torch.full_like(wide[:, :1], -1e30)
    total = torch.zeros_like(peak)
    for tile in wide.split(96, dim=1):
        raised = torch.maximum(peak, tile.amax(1, keepdim=True))
        total = total * torch.exp(peak - raised) + torch.exp(tile - raised).sum(1, keepdim=True)
        peak = raised
    return (torch.exp(wide - peak) / total).to(scores.dtype)
