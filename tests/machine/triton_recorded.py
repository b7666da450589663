"""Triton kernels that take what the corpus' kernels do not: addresses as numbers, descriptors."""
# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _from_address(x, y, n, BLOCK: tl.constexpr):
    x = x.to(tl.pointer_type(tl.float32))
    o = tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


def from_address(x, y):
    """Copy 100 float32 from a tensor whose address is all that the kernel gets."""
    _from_address[(1,)](x.data_ptr(), y, 100, BLOCK=128)


@triton.jit
def _doubled_tiles(x, y, BLOCK: tl.constexpr):
    top, left = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    y.store([top, left], x.load([top, left]) * 2.0)


def doubled_tiles(x):
    """Double 40 x 64 numbers through descriptors that the host makes."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    y = torch.empty_like(x)
    maps = [TensorDescriptor.from_tensor(one, [32, 32]) for one in (x, y)]
    _doubled_tiles[(2, 2)](*maps, BLOCK=32)
    return y


@triton.jit
def _waits(flag, y):
    seen = tl.load(flag, volatile=True)
    while seen == 0:
        seen = tl.load(flag, volatile=True)
    tl.store(y + tl.arange(0, 32), 1.0)


def waits(flag, y):
    """Write ones once a flag in memory is set."""
    _waits[(1,)](flag, y, num_warps=1)


@triton.jit
def _writes_far(y, far):
    tl.store(y + tl.arange(0, 256) + far.to(tl.int64), 1.0)


def writes_far(y, far):
    """Write 256 ones, `far` elements behind the first place of y."""
    _writes_far[(1,)](y, far)
