"""Runs small PTX kernels over buffers in the machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.findings import MachineReport
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"


def buffer_of(array: NDArray[np.generic], name: str = "buffer") -> Buffer:
    """Return a buffer with a copy of an array's bytes."""
    return Buffer(name=name, data=np.ascontiguousarray(array).copy().view(np.uint8).ravel())


def kernel(body: str, *, params: str = ".param .u64 a, .param .u64 b", registers: str = "") -> str:
    """Return a module with an entry `k`: pointers a and b in %rd1 and %rd2, the thread in %r1.

    Registers: %f<64>, %r<64>, %h<32>, %rd<32>, %p<8>.
    """
    return (
        f"{HEADER}.visible .entry k({params})\n{{\n"
        ".reg .f32 %f<64>; .reg .b32 %r<64>; .reg .b16 %h<32>; .reg .b64 %rd<32>;\n"
        f".reg .pred %p<8>; {registers}\n"
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x;\n"
        f"{body}\nret;\n}}\n"
    )


def execute(
    text: str,
    *arguments: Buffer | bytes,
    block: int = 32,
    grid: int = 1,
    options: Options | None = None,
) -> MachineReport:
    """Run entry `k` of a module on one row of blocks."""
    given: list[Argument] = [
        Pointer(buffer=one) if isinstance(one, Buffer) else one for one in arguments
    ]
    launch = Launch(kernel="k", grid=(grid, 1, 1), block=(block, 1, 1), arguments=tuple(given))
    return run(parse(text), launch, options=options)
