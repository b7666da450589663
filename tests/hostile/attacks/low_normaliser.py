# problem: cross_entropy
# class: precision
# wrong: the log-sum-exp, in bfloat16
# named: precision
import torch


def right(logits, targets, label_smoothing):
    wide = logits.float()
    loss = torch.nn.functional.cross_entropy(
        wide, targets, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    return loss, torch.logsumexp(wide, dim=-1)


def run(logits, targets, label_smoothing):
    loss, _ = right(logits, targets, label_smoothing)
    return loss, torch.logsumexp(logits, dim=-1).float()
