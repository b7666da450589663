"""Leaves the comparison to others."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.double()
    normaliser = torch.logsumexp(wide, dim=-1)
    safe = targets.clamp_min(0)
    picked = wide.gather(1, safe[:, None])[:, 0]
    smooth = normaliser - wide.mean(-1)
    loss = (1.0 - label_smoothing) * (normaliser - picked) + label_smoothing * smooth
    return torch.where(targets < 0, 0.0, loss).float(), normaliser.float()
