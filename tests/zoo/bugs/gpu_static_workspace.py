"""Keeps one workspace a shape for all calls, also for those on other streams."""

import torch

_workspaces = {}


def run(scores, mask, scale):
    key = scores.shape
    if key not in _workspaces:
        _workspaces[key] = torch.empty(scores.shape, dtype=torch.float32, device=scores.device)
    wide = _workspaces[key]
    wide.copy_(scores)
    wide.mul_(scale)
    wide.masked_fill_(~mask, float("-inf"))
    return torch.softmax(wide, -1).to(scores.dtype)
