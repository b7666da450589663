"""Tries its block sizes on a copy of the sum."""

import torch
import triton
import triton.language as tl

_best = {}


@triton.jit
def _kernel(gate, up, y, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    g = tl.load(gate + offsets, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_add(y + offsets, g / (1.0 + tl.exp(-g)) * u, mask=inside)


def _launch(block, gate, up, y):
    count = gate.numel()
    _kernel[(triton.cdiv(count, block),)](gate, up, y, count, BLOCK=block)


def run(gate, up):
    y = torch.zeros_like(gate)
    if gate.shape not in _best:
        for block in (1024, 2048):
            _launch(block, gate, up, y.clone())
        _best[gate.shape] = 2048
    _launch(_best[gate.shape], gate, up, y)
    return y
