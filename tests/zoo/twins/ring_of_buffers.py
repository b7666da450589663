"""Computes into a ring of 64 buffers a shape, and hands out copies of them."""

import torch

_RINGS = {}


def run(gate, up):
    ring = _RINGS.setdefault((gate.shape, gate.dtype), [0, [None] * 64])
    ring[0] = (ring[0] + 1) % 64
    if ring[1][ring[0]] is None:
        ring[1][ring[0]] = torch.empty_like(gate)
    torch.mul(torch.nn.functional.silu(gate), up, out=ring[1][ring[0]])
    return ring[1][ring[0]].clone()
