"""Takes the variance from centred values in two passes."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, bias, y, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    values = tl.load(x + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values) / hidden
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred) / hidden
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    result = centred * (1.0 / tl.sqrt(variance + eps)) * scale + shift
    tl.store(y + row * hidden + columns, result, mask=inside)


def run(x, weight, bias, eps):
    y = torch.empty_like(x)
    hidden = x.shape[1]
    block = triton.next_power_of_2(hidden)
    _kernel[(x.shape[0],)](x, weight, bias, y, hidden, eps, BLOCK=block)
    return y
