"""A plain Triton kernel over the flat tensors."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(gate, up, y, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    g = tl.load(gate + offsets, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + offsets, mask=inside, other=0.0).to(tl.float32)
    result = g / (1.0 + tl.exp(-g)) * u
    tl.store(y + offsets, result.to(y.dtype.element_ty), mask=inside)


def run(gate, up):
    y = torch.empty_like(gate)
    _kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, y, gate.numel(), BLOCK=1024)
    return y
