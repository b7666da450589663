"""Subtracts the row's maximum first."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.float()
    peak = wide.amax(-1, keepdim=True)
    normaliser = torch.exp(wide - peak).sum(-1).log() + peak[:, 0]
    ignored = targets == -100
    picked = wide.gather(1, targets.masked_fill(ignored, 0)[:, None])[:, 0]
    smooth = normaliser - wide.mean(-1)
    loss = (1 - label_smoothing) * (normaliser - picked) + label_smoothing * smooth
    return loss.masked_fill(ignored, 0.0), normaliser
