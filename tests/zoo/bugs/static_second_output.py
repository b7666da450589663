"""Returns its second output in a buffer that the next call of the same size overwrites."""

import torch

_buffers = {}


def run(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    rows = logits.shape[0]
    if (rows, logits.device) not in _buffers:
        _buffers[rows, logits.device] = torch.empty(rows, device=logits.device)
    kept = _buffers[rows, logits.device]
    kept.copy_(torch.logsumexp(wide, dim=-1))
    return loss, kept
