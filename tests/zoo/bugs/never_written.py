"""Allocates the log-normaliser and never writes it."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    normaliser = torch.empty_like(loss)
    return loss, normaliser
