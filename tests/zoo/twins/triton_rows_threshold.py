"""Gives a program several rows where there are many, in a block of the row's next power of two."""

import math

import torch
import triton
import triton.language as tl

_MANY = math.isqrt(2_100_000)


@triton.jit
def _kernel(x, weight, y, rows, hidden, eps, EACH: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    for number in range(EACH):
        row = (tl.program_id(0) * EACH + number).to(tl.int64)
        kept = inside & (row < rows)
        values = tl.load(x + row * hidden + columns, mask=kept, other=0.0).to(tl.float32)
        mean = tl.sum(values * values) / hidden
        tl.store(y + row * hidden + columns, values * tl.rsqrt(mean + eps) * scale, mask=kept)


def run(x, weight, eps):
    y = torch.empty_like(x)
    rows, hidden = x.shape
    block = triton.next_power_of_2(hidden)
    if rows > _MANY:
        programs = triton.cdiv(rows, 8)
        _kernel[(programs,)](x, weight, y, rows, hidden, eps, EACH=8, BLOCK=block, num_warps=8)
    else:
        _kernel[(rows,)](x, weight, y, rows, hidden, eps, EACH=1, BLOCK=block, num_warps=4)
    return y
