"""Adds products into a sum that its autotuner clears before each trial run."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 2048})],
    key=["count"],
    reset_to_zero=["y"],
)
@triton.jit
def _kernel(gate, up, y, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    g = tl.load(gate + offsets, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_add(y + offsets, g / (1.0 + tl.exp(-g)) * u, mask=inside)


def run(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    y = torch.zeros_like(gate)
    count = gate.numel()
    _kernel[lambda options: (triton.cdiv(count, options["BLOCK"]),)](gate, up, y, count)
    return y
