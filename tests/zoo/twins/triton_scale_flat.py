"""Reads the scale of a row at its stride."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(codes, scale, y, code_row, code_column, scale_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    code = tl.load(codes + row * code_row + column * code_column, mask=inside, other=0)
    factor = tl.load(scale + row * scale_stride)
    tl.store(y + row * columns + column, code.to(tl.float32) * factor, mask=inside)


def run(codes, scale):
    rows, columns = codes.shape
    y = torch.empty((rows, columns), dtype=torch.bfloat16, device=codes.device)
    block = triton.next_power_of_2(columns)
    _kernel[(rows,)](codes, scale, y, *codes.stride(), scale.stride(0), columns, BLOCK=block)
    return y
