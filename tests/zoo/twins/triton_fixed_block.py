"""Loads the whole row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, y, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    values = tl.load(x + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values * values) / hidden
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    result = values * (1.0 / tl.sqrt(mean + eps)) * scale
    tl.store(y + row * hidden + columns, result, mask=inside)


def run(x, weight, eps):
    y = torch.empty_like(x)
    hidden = x.shape[1]
    _kernel[(x.shape[0],)](x, weight, y, hidden, eps, BLOCK=triton.next_power_of_2(hidden))
    return y
