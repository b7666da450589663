"""One pass over tiles with a running maximum and sum."""

import torch


def run(logits, targets, label_smoothing):
    wide = logits.float()
    peak = torch.full_like(wide[:, :1], float("-inf"))
    total, plain = torch.zeros_like(peak), torch.zeros_like(peak)
    for tile in wide.split(128, dim=1):
        raised = torch.maximum(peak, tile.amax(1, keepdim=True))
        total = total * torch.exp(peak - raised) + torch.exp(tile - raised).sum(1, keepdim=True)
        plain += tile.sum(1, keepdim=True)
        peak = raised
    normaliser = (peak + total.log())[:, 0]
    ignored = targets == -100
    picked = wide.gather(1, targets.masked_fill(ignored, 0)[:, None])[:, 0]
    smooth = normaliser - plain[:, 0] / logits.shape[1]
    loss = (1.0 - label_smoothing) * (normaliser - picked) + label_smoothing * smooth
    return loss.masked_fill(ignored, 0.0), normaliser
