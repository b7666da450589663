"""Gradient of the cross-entropy through torch.compile, one graph for all shapes."""

import torch


@torch.compile(dynamic=True)
def _gradient(logits, targets, grad_loss, smoothing):
    wide, columns = logits.float(), logits.shape[-1]
    hit = torch.arange(columns, device=logits.device) == targets.unsqueeze(-1)
    share = smoothing / columns + torch.where(hit, 1.0 - smoothing, 0.0)
    factor = torch.where(targets == -100, 0.0, grad_loss).unsqueeze(-1)
    return ((torch.softmax(wide, dim=-1) - share) * factor).to(logits.dtype)


def run(logits, targets, grad_loss, label_smoothing):
    return _gradient(logits, targets, grad_loss, label_smoothing)
