"""Float64 inside."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.double()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    return loss.float(), torch.logsumexp(wide, dim=-1).float()
