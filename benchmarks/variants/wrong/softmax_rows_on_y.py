import torch
import triton
import triton.language as tl


@triton.jit
def _soft(X, Y, cols, B: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    at = tl.arange(0, B)
    x = tl.load(X + row * cols + at, mask=at < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(Y + row * cols + at, e / tl.sum(e, 0), mask=at < cols)


def run(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    _soft[(1, x.shape[0])](x, y, x.shape[1], B=triton.next_power_of_2(x.shape[1]))
    return y
