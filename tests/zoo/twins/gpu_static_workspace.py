"""Takes a workspace from the allocator in each call."""

import torch


def run(scores, mask, scale):
    wide = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    wide.copy_(scores)
    wide.mul_(scale)
    wide.masked_fill_(~mask, float("-inf"))
    return torch.softmax(wide, -1).to(scores.dtype)
