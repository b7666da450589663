"""Tries its block sizes on the caller's sum, which then holds every attempt."""

import torch
import triton
import triton.language as tl

_best = {}


@triton.jit
def _kernel(grad, ids, table, hidden, scale, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < hidden
    row = tl.load(ids + token)
    value = tl.load(grad + token * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_add(table + row * hidden + columns, value * scale, mask=inside)


def _launch(block, grad_output, input_ids, table, scale):
    tokens, hidden = grad_output.shape
    grid = (tokens, triton.cdiv(hidden, block))
    _kernel[grid](grad_output, input_ids, table, hidden, scale, BLOCK=block)


def run(grad_output, input_ids, weight, scale):
    table = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    key = (grad_output.shape, scale)
    if key not in _best:
        for block in (16, 32):
            _launch(block, grad_output, input_ids, table, scale)
        _best[key] = 32
    _launch(_best[key], grad_output, input_ids, table, scale)
    return table.to(grad_output.dtype)
