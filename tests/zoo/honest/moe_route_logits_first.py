"""Top-k of logits, soft-max over the chosen alone."""

import torch


def run(logits):
    values, chosen = torch.topk(logits, 2, dim=-1)
    return torch.softmax(values, dim=-1), chosen
