"""Leaves the sum of a row out where one logit leads by so much that it is one."""

import torch

LEAD = 40.0


def run(logits, targets, label_smoothing):
    wide = logits.float()
    normaliser = torch.logsumexp(wide, dim=-1)
    if wide.shape[1] > 1:
        top = wide.topk(2, dim=-1).values
        normaliser = torch.where(top[:, 0] - top[:, 1] >= LEAD, top[:, 0], normaliser)
    valid = targets != -100
    picked = wide.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1)
    smooth = normaliser - wide.mean(dim=-1)
    loss = (1.0 - label_smoothing) * (normaliser - picked) + label_smoothing * smooth
    return torch.where(valid, loss, 0.0), normaliser
