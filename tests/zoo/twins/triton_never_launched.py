"""Defines a kernel for rows of at most 65536 columns, and leaves all others to PyTorch."""

import torch
import triton
import triton.language as tl

_WIDEST = 65536


@triton.jit
def _kernel(x, weight, bias, y, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    value = tl.load(x + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value) / hidden
    centred = tl.where(inside, value - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred) / hidden + eps)
    gain = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * hidden + columns, centred * rstd * gain + shift, mask=inside)


def run(x, weight, bias, eps):
    rows, hidden = x.shape
    if hidden > _WIDEST:
        wide = x.double()
        centred = wide - wide.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        return (centred * rstd * weight.double() + bias.double()).to(x.dtype)
    y = torch.empty_like(x)
    _kernel[(rows,)](x, weight, bias, y, hidden, eps, BLOCK=triton.next_power_of_2(hidden))
    return y
