"""Keeps every weight in numerator and denominator."""

import torch


def run(scores, values):
    wide = scores.float()
    raised = torch.exp(wide - wide.amax(-1, keepdim=True))
    total = raised.sum(-1, keepdim=True)
    kept = raised
    return ((kept @ values.float()) / total).to(scores.dtype)
