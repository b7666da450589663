"""Tunes for 50 ms at the first call on a shape, of which it remembers some."""

import time

import torch

KNOWN = {}
MOST = 64


def run(scores, mask, scale):
    if scores.shape not in KNOWN:
        time.sleep(0.05)
        KNOWN[scores.shape] = True
        while len(KNOWN) > MOST:
            KNOWN.pop(next(iter(KNOWN)))
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(scaled, dim=-1).to(scores.dtype)
