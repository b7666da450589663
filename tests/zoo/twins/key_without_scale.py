"""Specialises a function per shape and cap."""

import torch

_specialised = {}


def _specialise(cap):
    def kernel(logits):
        capped = cap * torch.tanh(logits.float() / cap)
        return torch.softmax(capped, dim=-1).to(logits.dtype)

    return kernel


def run(logits, cap):
    key = (tuple(logits.shape), cap)
    if key not in _specialised:
        _specialised[key] = _specialise(cap)
    return _specialised[key](logits)
