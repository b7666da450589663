"""Starts a sequence from the state that the last one ended with."""

import torch

_kept = {}


def run(x, decay):
    zeros = torch.zeros_like(decay)
    state = _kept.get(decay.shape, zeros)
    ys = []
    for column in x.float().unbind(1):
        state = decay * state + column
        ys.append(state)
    _kept[decay.shape] = state
    return torch.stack(ys, 1).to(x.dtype)
