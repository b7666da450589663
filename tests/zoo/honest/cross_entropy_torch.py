"""PyTorch's own operator and logsumexp."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    return loss, torch.logsumexp(wide, dim=-1)
