"""Keeps the running sum of tiles of 32 terms in float32."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(a, b, y, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.program_id(1).to(tl.int64) * N + tl.arange(0, N)
    terms = tl.arange(0, K).to(tl.int64)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        at = start + terms
        left = tl.load(a + rows[:, None] * k + at, mask=(rows[:, None] < m) & (at < k), other=0.0)
        right = tl.load(
            b + at[:, None] * n + columns, mask=(at[:, None] < k) & (columns < n), other=0.0
        )
        product = tl.dot(left, right, input_precision="ieee")
        total = (total + product).to(tl.float32)
    inside = (rows[:, None] < m) & (columns < n)
    tl.store(y + rows[:, None] * n + columns, total, mask=inside)


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    y = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    _kernel[grid](a, b, y, m, n, k, M=32, N=32, K=32)
    return y
