"""Seeds the global generator in every call: all later dropout masks of the process repeat."""

import torch


def run(scores, kept, scale, p):
    torch.manual_seed(0)
    order = torch.randperm(len(scores)).to(scores.device)
    rows = torch.softmax(scores[order].float() * scale, dim=-1)
    spread = torch.where(kept[order], rows / (1.0 - p), 0.0)
    return torch.empty_like(spread).index_copy_(0, order, spread).to(scores.dtype)
