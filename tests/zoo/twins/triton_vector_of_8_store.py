"""Stores the elements of the last vector that there are."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(gate, up, y, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    g = tl.load(gate + offsets, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + offsets, mask=inside, other=0.0).to(tl.float32)
    cube = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    e = tl.exp(-2.0 * tl.abs(cube))
    tanh = tl.where(cube < 0.0, -1.0, 1.0) * ((1.0 - e) / (1.0 + e))
    wanted = offsets < count
    tl.store(y + offsets, 0.5 * g * (1.0 + tanh) * u, mask=wanted)


def run(gate, up):
    y = torch.empty_like(gate)
    count = gate.numel()
    _kernel[(triton.cdiv(count, 256),)](gate, up, y, count, BLOCK=256)
    return y
