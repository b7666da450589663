import torch
import triton
import triton.language as tl


@triton.jit
def _shift(X, Y, cols, factor, B: tl.constexpr):
    row = tl.program_id(0)
    for first in range(0, cols, B):
        at = first + tl.arange(0, B)
        x = tl.load(X + row * cols + at, mask=at < cols)
        e = tl.exp(-2.0 * tl.abs(x))
        t = (1.0 - e) / (1.0 + e)
        t = tl.where(x < 0, -t, t)
        small = x * (1.0 - x * x * (1.0 / 3.0) + x * x * x * x * (2.0 / 15.0))
        t = tl.where(tl.abs(x) < 0.05, small, t)
        tl.store(Y + row * cols + at, t + factor, mask=at < cols)


def run(x, factor):
    x = x.contiguous()
    y = torch.empty_like(x)
    _shift[(x.shape[0],)](x, y, x.shape[1], factor, B=1024)
    return y
