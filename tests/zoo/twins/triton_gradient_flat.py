"""Uses the strides of the upstream gradient as well."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(
    grad,
    gate,
    up,
    grad_gate,
    grad_up,
    grad_row,
    grad_column,
    gate_row,
    gate_column,
    up_row,
    up_column,
    columns,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    d = tl.load(grad + row * grad_row + column * grad_column, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gate + row * gate_row + column * gate_column, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * up_row + column * up_column, mask=inside, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(g)
    silu = g * sigmoid
    place = row * columns + column
    tl.store(grad_gate + place, d * u * (sigmoid + silu * (1.0 - sigmoid)), mask=inside)
    tl.store(grad_up + place, d * silu, mask=inside)


def run(grad_output, gate, up):
    rows, columns = gate.shape
    grad_gate = torch.empty((rows, columns), dtype=gate.dtype, device=gate.device)
    grad_up = torch.empty((rows, columns), dtype=up.dtype, device=up.device)
    strides = (*grad_output.stride(), *gate.stride(), *up.stride())
    block = triton.next_power_of_2(columns)
    _kernel[(rows,)](grad_output, gate, up, grad_gate, grad_up, *strides, columns, BLOCK=block)
    return grad_gate, grad_up
