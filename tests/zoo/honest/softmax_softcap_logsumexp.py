"""exp(x - logsumexp(x))."""

import torch


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    return torch.exp(capped - torch.logsumexp(capped, dim=-1, keepdim=True)).to(logits.dtype)
