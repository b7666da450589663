"""Remembers the last calls for whoever looks."""

import collections

import torch

CALLS = collections.deque(maxlen=16)


def run(gate, up):
    CALLS.append(float(gate.shape[0]))
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)
