"""Operators in several forms that are the same real-number expression, and faults in some of them.

Every form of a family is compared with the first one. Forms differ in tiles, warps, trees, fusion
and passes; a fault is an edit of one form after which it is another expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptxsan_corpus.case import Array, Empty, Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One launch of a form: a kernel of the family's source."""

    kernel: str
    arguments: tuple[str | Number, ...]
    grid: int | tuple[int, int, int] = 1
    block: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to compute a family's outputs."""

    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Slip:
    """A fault: in form `form`, `old` becomes `new` in the source (everywhere)."""

    name: str
    form: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An operator: its forms share memory (`make`) and leave `outputs` (name to PTX type)."""

    name: str
    source: str
    make: Callable[[np.random.Generator], Mapping[str, Array | Empty]]
    outputs: Mapping[str, str]
    forms: tuple[Form, ...]
    faults: tuple[Slip, ...] = ()


def one(name: str, *arguments: str | Number, grid: int = 1, block: int = 32) -> Form:
    """Return a form of one kernel, named as the form."""
    return Form(
        name=name,
        steps=(Step(kernel=name, arguments=arguments, grid=grid, block=block),),
    )


WARP = """
#define INF __int_as_float(0x7f800000)
__device__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
__device__ float warp_max(float v) {
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float part[128];
    part[threadIdx.x] = v; __syncthreads();
    for (int s = blockDim.x / 2; s; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    float all = part[0]; __syncthreads();
    return all;
}
"""
