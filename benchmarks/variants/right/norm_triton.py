import torch
import triton
import triton.language as tl


@triton.jit
def _norm(X, W, Y, cols, eps, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, B)
    x = tl.load(X + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(x * x, 0) / cols + eps)
    w = tl.load(W + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(Y + row * cols + at, (x * r * w).to(tl.bfloat16), mask=at < cols)


def run(x, weight, eps):
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty_like(x)
    _norm[(x.shape[0],)](x, weight, y, x.shape[1], eps, B=triton.next_power_of_2(x.shape[1]))
    return y
