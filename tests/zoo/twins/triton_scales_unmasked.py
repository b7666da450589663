"""Stores the scales of the rows that there are."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x, codes, scales, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = row[:, None] * columns + column[None, :]
    values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(values), axis=1) / 127.0, 1e-10)
    tl.store(scales + row, scale, mask=row < rows)
    ratio = values / scale[:, None]
    magic = 12582912.0  # 1.5 * 2**23: adding and subtracting it rounds to even
    rounded = (ratio + magic) - magic
    tl.store(codes + place, rounded.to(tl.int8), mask=inside)


def run(x):
    rows, columns = x.shape
    codes = torch.empty(rows, columns, dtype=torch.int8, device=x.device)
    scales = torch.empty(rows, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(columns)
    _kernel[(triton.cdiv(rows, 8),)](x, codes, scales, rows, columns, ROWS=8, BLOCK=block)
    return codes, scales
