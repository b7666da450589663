import torch
import triton
import triton.language as tl


@triton.jit
def _soft(X, Y, cols, stride, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, B)
    x = tl.load(X + row * stride + at, mask=at < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(Y + row * cols + at, e / tl.sum(e, 0), mask=at < cols)


def run(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _soft[(x.shape[0],)](x, y, x.shape[1], x.stride(0), B=triton.next_power_of_2(x.shape[1]))
    return y
