"""What a launch costs in memory, said before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxsan import objects
from ptxsan.codegen import Code
from ptxsan.contexts import UPDATE_BYTES, context_bytes
from ptxsan.errors import MachineError
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.program import Program
from ptxsan.records import buffers_of
from ptxsan.runtime import layout as L


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Memory of a launch: `kernel_bytes` in its buffers, `state_bytes` in all, with the buffers."""

    kernel_bytes: int
    state_bytes: int

    @property
    def ratio(self) -> float:
        """State bytes per byte of kernel memory."""
        return self.state_bytes / max(1, self.kernel_bytes)


def of(program: Program, code: Code, launch: Launch, options: Options) -> Budget:
    """Return the memory that a launch needs.

    A byte of global memory costs itself and a flag; with shadows two bytes more (four for every
    two), with races 16 bytes for every granule and a copy for the second look.
    """
    kernel = sum(int(one.data.size) for one in buffers_of(launch))
    each = 0.0 if options.blocks else 2.0  # of blocks alone, buffers may show a few megabytes
    if (options.shadow or program.copies) and not options.blocks:
        each += 2
    if options.races:
        each += 16 / program.granule["global"]
    again = "rt_defer" in code.calls and not options.blocks
    if options.races or again:  # contents before, to run it again
        each += 1 + (2 if options.shadow else 0)
    shared = sum(one.bytes for one in program.shared) + launch.dynamic_shared_bytes
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    one = context_bytes(program, code, shared, threads)
    one += objects.of(program, launch, options).block_bytes
    one += UPDATE_BYTES if "rt_defer" in code.calls else 0
    return Budget(kernel_bytes=kernel, state_bytes=int(kernel * each) + one * options.workers)


def demand(program: Program, code: Code, launch: Launch, options: Options) -> None:
    """Raise MachineError if a launch would need more memory than the options allow."""
    threads = math.prod(launch.grid) * math.prod(launch.block)
    # Threads have numbers of 26 bits where races are looked for, else of 32 bits.
    most = 1 << 32 if options.blocks else L.MOST_THREADS
    if threads > most:
        raise MachineError(
            f"kernel '{program.name}' over {threads} threads: the machine runs {most} "
            "at most; use a smaller grid"
        )
    room = 1 << (L.REGION_SHIFT - 1)
    for one in buffers_of(launch):
        if one.data.size > room:
            raise MachineError(
                f"kernel '{program.name}': '{one.name}' has {one.data.size} bytes, and the machine "
                f"has addresses for {room} bytes of one allocation; use a smaller launch"
            )
    need = of(program, code, launch, options)
    if need.state_bytes > options.memory_bytes:
        raise MachineError(
            f"kernel '{program.name}' over {need.kernel_bytes} bytes needs {need.state_bytes} "
            f"bytes of state, {options.memory_bytes} are allowed: use a smaller launch, or "
            "leave out races or shadows"
        )
