"""Launches one program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, y, rows, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    source = tl.minimum(row, rows - 1)
    values = tl.load(x + source * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(values * values) / hidden + eps)
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * hidden + columns, values * rstd * scale, mask=inside)


def run(x, weight, eps):
    y = torch.empty_like(x)
    rows, hidden = x.shape
    block = triton.next_power_of_2(hidden)
    _kernel[(rows,)](x, weight, y, rows, hidden, eps, BLOCK=block)
    return y
