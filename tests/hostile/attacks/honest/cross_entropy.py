import torch


def right(logits, targets, label_smoothing):
    wide = logits.float()
    normaliser = torch.logsumexp(wide, dim=-1)
    valid = targets != -100
    picked = wide.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1)
    plain = normaliser - picked
    smooth = normaliser - wide.mean(dim=-1)
    loss = (1.0 - label_smoothing) * plain + label_smoothing * smooth
    return torch.where(valid, loss, 0.0), normaliser
