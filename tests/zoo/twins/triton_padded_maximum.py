"""The largest number of each row; what lies beyond the row is taken as -infinity."""

import torch
import triton
import triton.language as tl


@triton.jit
def _largest(X, Y, cols, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + row * cols + col, mask=col < cols, other=float("-inf"))
    tl.store(Y + row, tl.max(x, axis=0))


def run(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    _largest[(x.shape[0],)](x.contiguous(), y, x.shape[1], BLOCK=block)
    return y
