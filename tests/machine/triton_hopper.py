"""Triton kernels for sm_90 whose tiles are copied by TMA: descriptors of the device and the host."""
# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _scale(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([i, j], source.load([i, j]) * 2)


def descriptor_scale(x):
    y = torch.empty_like(x)
    m, n = x.shape
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
    _scale[(triton.cdiv(m, 16), triton.cdiv(n, 32))](x, y, m, n, BM=16, BN=32)
    return y


@triton.jit
def _matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    dc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        total = tl.dot(da.load([i, at]), db.load([at, j]), total)
    dc.store([i, j], total.to(c.dtype.element_ty))


def descriptor_matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    _matmul[grid](a, b, c, m, n, k, BM=64, BN=64, BK=32, num_stages=3)
    return c


@triton.jit
def _matmul_host(da, db, dc, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        total = tl.dot(da.load([i, at]), db.load([at, j]), total)
    dc.store([i, j], total.to(tl.float16))


def host_descriptor_matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype)
    maps = [
        TensorDescriptor.from_tensor(one, list(box))
        for one, box in ((a, (64, 32)), (b, (32, 64)), (c, (64, 64)))
    ]
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    _matmul_host[grid](*maps, k, BM=64, BN=64, BK=32, num_stages=3)
    return c
