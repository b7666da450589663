"""Multiplies every row by its own upstream gradient."""

import torch


def run(logits, targets, grad_loss, label_smoothing):
    p = torch.softmax(logits.float(), -1)
    share = torch.full_like(p, label_smoothing / logits.shape[1])
    valid = targets != -100
    share.scatter_add_(
        1, targets.clamp_min(0)[:, None], torch.full_like(p[:, :1], 1.0 - label_smoothing)
    )
    factor = torch.where(valid, grad_loss, 0.0)
    return ((p - share) * factor[:, None]).to(logits.dtype)
