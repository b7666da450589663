"""Caps with the library's tanh."""

import torch


def _tanh(t):

    return torch.tanh(t)


def run(logits, cap):
    return torch.softmax(cap * _tanh(logits.float() / cap), -1).to(logits.dtype)
