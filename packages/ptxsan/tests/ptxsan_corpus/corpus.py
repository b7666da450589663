"""Every CUDA C++ kernel of the corpus: its PTX, its memory, and whether its answer is right."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

import numpy as np

from ptxsan.launch import Argument, Buffer, Launch, Pointer, TensorMap
from ptxsan.nvrtc import compile_ptx
from ptxsan_corpus import (
    cuda_attention,
    cuda_backward,
    cuda_clusters,
    cuda_columns,
    cuda_cooperation,
    cuda_hopper,
    cuda_matrix,
    cuda_pointwise,
    cuda_precision,
    cuda_reductions,
    cuda_remote,
    cuda_shared,
    cuda_tensors,
    faults_hopper,
    faults_memory,
    faults_precision,
    faults_races,
    faults_remote,
)
from ptxsan_corpus.case import Arrays, Empty, Fault, Kernel, Number, Tile

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for table in (
        cuda_pointwise,
        cuda_reductions,
        cuda_backward,
        cuda_matrix,
        cuda_attention,
        cuda_shared,
        cuda_cooperation,
        cuda_precision,
        cuda_hopper,
        cuda_clusters,
        cuda_tensors,
        cuda_remote,
        cuda_columns,
    )
    for kernel in table.KERNELS
}
FAULTS: tuple[Fault, ...] = (
    *faults_memory.FAULTS,
    *faults_races.FAULTS,
    *faults_hopper.FAULTS,
    *faults_remote.FAULTS,
)
PRECISION_FAULTS: tuple[Fault, ...] = faults_precision.FAULTS


def planted(fault: Fault) -> Kernel:
    """Return the faulty kernel of a fault."""
    return fault.planted(KERNELS[fault.twin])


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A kernel with memory: the launch, its buffers, and the arrays as they were before."""

    launch: Launch
    buffers: Mapping[str, Buffer]
    before: Arrays
    types: Mapping[str, np.dtype]


@lru_cache(maxsize=512)
def ptx(kernel_text: str, arch: str) -> str:
    """Return the PTX of a source text."""
    return compile_ptx(kernel_text, arch=arch, name="kernel.cu")


def prepare(kernel: Kernel, seed: int = 0) -> Prepared:
    """Draw a kernel's memory and return its launch."""
    made = kernel.make(np.random.default_rng(seed))
    buffers: dict[str, Buffer] = {}
    before: Arrays = {}
    for name, value in made.items():
        if isinstance(value, Empty):
            data = np.full(value.size * value.dtype.itemsize, 0xFF, dtype=np.uint8)
            flags = np.zeros(data.nbytes, dtype=np.bool_)
            buffers[name] = Buffer(name=name, data=data, initialised=flags)
        else:
            before[name] = value.copy()
            data = np.frombuffer(bytearray(value.tobytes()), dtype=np.uint8)
            buffers[name] = Buffer(name=name, data=data)
    arguments = tuple(_argument(item, buffers) for item in kernel.arguments)
    launch = Launch(
        kernel=kernel.entry,
        grid=kernel.grid,
        block=kernel.block,
        arguments=arguments,
        dynamic_shared_bytes=kernel.shared_bytes,
    )
    types = {name: value.dtype for name, value in made.items()}
    return Prepared(launch=launch, buffers=buffers, before=before, types=types)


def _argument(item: str | Number | Tile, buffers: Mapping[str, Buffer]) -> Argument:
    """Return a parameter as the machine takes it."""
    match item:
        case Number():
            return item.packed()
        case Tile():
            fields = {one.name: getattr(item, one.name) for one in dataclasses.fields(item)}
            name = fields.pop("buffer")
            return TensorMap(pointer=Pointer(buffer=buffers[name]), **fields)
        case str():
            return Pointer(buffer=buffers[item])
        case _:
            assert_never(item)


def mistakes(kernel: Kernel, prepared: Prepared) -> list[str]:
    """Return, in words, which outputs are not what the kernel should have computed."""
    found = []
    for name, right in kernel.expect(prepared.before).items():
        got = prepared.buffers[name].data.view(prepared.types[name]).astype(np.float64)
        wanted = np.asarray(right, dtype=np.float64)
        limit = kernel.tolerance * max(1.0, float(np.abs(wanted).max(initial=0.0)))
        error = float(np.abs(got - wanted).max(initial=0.0))
        if not error <= limit:
            found.append(f"{name}: off by {error:.3g}, allowed {limit:.3g}")
    return found
