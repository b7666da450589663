"""Base-2 exponentials, keep factor folded into the normaliser."""

import torch

LOG2E = 1.4426950408889634


def run(scores, kept, scale, p):
    wide = scores.float() * (scale * LOG2E)
    raised = torch.exp2(wide - wide.amax(-1, keepdim=True))
    factor = 1.0 / (raised.sum(-1, keepdim=True) * (1.0 - p))
    return torch.where(kept, raised * factor, 0.0).to(scores.dtype)
