"""Writes rows into memory that is contiguous whatever the input is."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(gate, up, y, gate_row, gate_column, up_row, up_column, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    g = tl.load(gate + row * gate_row + column * gate_column, mask=inside, other=0.0)
    u = tl.load(up + row * up_row + column * up_column, mask=inside, other=0.0)
    g, u = g.to(tl.float32), u.to(tl.float32)
    inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    tl.store(y + row * columns + column, g * tl.sigmoid(2.0 * inner) * u, mask=inside)


def run(gate, up):
    rows, columns = gate.shape
    y = torch.empty((rows, columns), dtype=gate.dtype, device=gate.device)
    block = triton.next_power_of_2(columns)
    _kernel[(rows,)](gate, up, y, *gate.stride(), *up.stride(), columns, BLOCK=block)
    return y
