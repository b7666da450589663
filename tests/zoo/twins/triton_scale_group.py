"""Weights of 4 bits: the scale and the zero of each row's own group."""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(
    A, W, S, Z, Y, m, n, k, group,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.program_id(1).to(tl.int64) * N + tl.arange(0, N)
    kept = columns < n
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K).to(tl.int64)
        a = tl.load(A + rows[:, None] * k + inner[None, :], mask=rows[:, None] < m, other=0.0)
        words = W + (inner // 8)[:, None] * n + columns[None, :]
        code = (tl.load(words, mask=kept[None, :], other=0) >> (inner % 8 * 4)[:, None]) & 15
        own = start // group
        scale = tl.load(S + own * n + columns, mask=kept, other=0.0).to(tl.float32)
        zero = tl.load(Z + own * (n // 8) + columns // 8, mask=kept, other=0)
        zero = (zero >> (columns % 8 * 4)) & 15
        b = (code - zero[None, :]).to(tl.float32) * scale[None, :]
        total += tl.sum(a.to(tl.float32)[:, :, None] * b[None, :, :], axis=1)
    at = Y + rows[:, None] * n + columns[None, :]
    tl.store(at, total.to(Y.dtype.element_ty), mask=(rows[:, None] < m) & kept[None, :])


def run(a, weight, scales, zeros):
    a, weight, scales, zeros = (x.contiguous() for x in (a, weight, scales, zeros))
    (m, k), n = a.shape, scales.shape[1]
    group = k // len(scales)
    y = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
    _product[grid](a, weight, scales, zeros, y, m, n, k, group, M=16, N=16, K=32)
    return y
