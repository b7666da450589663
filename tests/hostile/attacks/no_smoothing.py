# problem: cross_entropy
# class: values
# wrong: label_smoothing other than 0
import torch


def right(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    return loss, torch.logsumexp(wide, dim=-1)


def run(logits, targets, label_smoothing):
    return right(logits, targets, 0.0)
