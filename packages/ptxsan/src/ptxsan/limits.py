"""What a GPU of an architecture refuses to launch.

Reference: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptxsan.launch import Dim3

MOST_THREADS = 1024
BLOCK_EXTENTS = (1024, 1024, 64)
GRID_EXTENTS = (2**31 - 1, 65535, 65535)
DEFAULT_SHARED = 48 << 10  # bytes of a block, static and dynamic, unless a program asks for more
RESERVED_SHARED = 1 << 10  # bytes of each block that the system keeps, from sm_80 on
_CLUSTER = 16  # 8 unless the program asks for more


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What GPUs of one compute capability have.

    Bytes of shared memory are those that a block may have (`shared`) and that a multiprocessor has;
    registers are 32 bits wide, of a multiprocessor and of a block; `multiprocessors` are those of
    the largest product. Reference: CUDA C++ Programming Guide, "Technical Specifications per
    Compute Capability".
    """

    shared: int
    multiprocessor_shared: int
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    multiprocessors: int

    @property
    def reserved_shared(self) -> int:
        """The bytes of shared memory that each block costs beside its own."""
        return RESERVED_SHARED if self.multiprocessor_shared > self.shared else 0


def _chip(shared: int, whole: int, multiprocessors: int, threads: int, blocks: int) -> Chip:
    return Chip(
        shared=shared << 10, multiprocessor_shared=whole << 10, threads=threads, blocks=blocks,
        multiprocessors=multiprocessors,
    )  # fmt: skip


_CHIPS = {
    50: _chip(48, 64, 16, 2048, 32), 52: _chip(48, 96, 24, 2048, 32),
    60: _chip(48, 64, 56, 2048, 32), 61: _chip(48, 96, 30, 2048, 32),
    70: _chip(96, 96, 80, 2048, 32), 72: _chip(96, 96, 8, 2048, 32),
    75: _chip(64, 64, 72, 1024, 16), 80: _chip(163, 164, 108, 2048, 32),
    86: _chip(99, 100, 84, 1536, 16), 87: _chip(163, 164, 16, 1536, 16),
    88: _chip(99, 100, 84, 1536, 16), 89: _chip(99, 100, 144, 1536, 24),
    90: _chip(227, 228, 132, 2048, 32), 100: _chip(227, 228, 148, 2048, 32),
    103: _chip(227, 228, 160, 2048, 32), 110: _chip(227, 228, 20, 1536, 24),
    120: _chip(99, 100, 188, 1536, 24), 121: _chip(99, 100, 48, 1536, 24),
}  # fmt: skip
MOST_SHARED = max(one.shared for one in _CHIPS.values())  # bytes of a block, on any of them


def chip(arch: int) -> Chip:
    """Return what GPUs of compute capability `arch` (80) have; of the nearest older, if unknown."""
    older = [one for one in _CHIPS if one <= arch]
    return _CHIPS[max(older, default=min(_CHIPS))]


def default_dynamic_bytes(static_bytes: int) -> int:
    """Return the dynamic shared memory of a kernel for which no program has asked for more."""
    return max(0, DEFAULT_SHARED - static_bytes)


def resident_blocks(
    *,
    threads: int,
    static_bytes: int,
    dynamic_bytes: int,
    registers: int,
    arch: int,
    most_threads: int = MOST_THREADS,
) -> int:
    """Return how many blocks one multiprocessor holds at once: 0 where not even one fits.

    `registers` are those of a thread; they are given out in groups of 256 for each warp.
    `most_threads` are those that the kernel is compiled for.
    """
    found = chip(arch)
    warps = -(-threads // 32)
    shared = static_bytes + dynamic_bytes
    if not 1 <= threads <= min(most_threads, MOST_THREADS) or shared > found.shared:
        return 0
    by_registers = found.registers // (-(-32 * registers // 256) * 256 * warps)
    shared += found.reserved_shared
    by_shared = found.multiprocessor_shared // shared if shared else found.blocks
    return min(found.blocks, found.threads // (32 * warps), by_registers, by_shared)


class Limit(enum.Enum):
    """Which limit a launch exceeds."""

    EXTENTS = "extents of grid or block"
    THREADS = "threads a block"
    BOUND = "threads that the kernel is compiled for"
    CLUSTER = "blocks of a cluster"
    STATIC = "static shared memory"
    DYNAMIC = "dynamic shared memory that the kernel is allowed"
    SHARED = "shared memory a block"
    COOPERATIVE = "blocks of a cooperative launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why no GPU of an architecture accepts a launch."""

    limit: Limit
    text: str


def refusal(
    kernel: str,
    directives: Mapping[str, tuple[int, ...]],
    *,
    grid: Dim3,
    block: Dim3,
    cluster: Dim3 = (1, 1, 1),
    static_bytes: int,
    dynamic_bytes: int,
    arch: int,
    allowed_bytes: int | None = None,
    cooperative_registers: int | None = None,
) -> Refusal | None:
    """Return why a GPU of compute capability `arch` (80) refuses a launch; None if it accepts it.

    `directives` are those of the PTX (maxntid, reqntid). Shared memory is in bytes;
    `allowed_bytes` is the dynamic shared memory that cudaFuncSetAttribute allows, where known.
    With `cooperative_registers`, those of a thread, all blocks have to be there at once, on the
    largest GPU of the architecture.
    """

    def refused(limit: Limit, what: str, most: str) -> Refusal:
        return Refusal(limit=limit, text=f"kernel '{kernel}': {what}; sm_{arch} takes {most}")

    threads = math.prod(block)
    for name, given, most in (("block", block, BLOCK_EXTENTS), ("grid", grid, GRID_EXTENTS)):
        if any(not 1 <= one <= limit for one, limit in zip(given, most, strict=True)):
            return refused(Limit.EXTENTS, f"a {name} of {given}", f"1 to {most} along x, y and z")
    if threads > MOST_THREADS:
        return refused(Limit.THREADS, f"{threads} threads a block", f"{MOST_THREADS} at most")
    bound = directives.get("maxntid")
    if bound and threads > math.prod(bound):
        return refused(
            Limit.BOUND,
            f"{threads} threads a block, compiled for {math.prod(bound)} (__launch_bounds__)",
            f"no more than it is compiled for, {math.prod(bound)}",
        )
    exact = (*directives.get("reqntid", ()), 1, 1, 1)[:3]
    if "reqntid" in directives and exact != block:
        return refused(Limit.BOUND, f"a block of {block}, compiled for {exact}", f"only {exact}")
    if math.prod(cluster) > _CLUSTER:
        return refused(Limit.CLUSTER, f"a cluster of {cluster} blocks", f"{_CLUSTER} at most")
    if static_bytes > DEFAULT_SHARED:
        return refused(
            Limit.STATIC,
            f"{static_bytes} bytes of static shared memory",
            f"{DEFAULT_SHARED} at most",
        )
    if allowed_bytes is not None and dynamic_bytes > allowed_bytes:
        return refused(
            Limit.DYNAMIC,
            f"{dynamic_bytes} bytes of dynamic shared memory beside {static_bytes} static ones",
            f"{allowed_bytes} dynamic ones at most unless cudaFuncSetAttribute allows more",
        )
    shared, room = static_bytes + dynamic_bytes, chip(arch).shared
    if shared > room:
        return refused(Limit.SHARED, f"{shared} bytes of shared memory a block", f"{room} at most")
    if cooperative_registers is not None:
        each = resident_blocks(
            threads=threads, static_bytes=static_bytes, dynamic_bytes=dynamic_bytes,
            registers=cooperative_registers, arch=arch,
        )  # fmt: skip
        units = chip(arch).multiprocessors
        resident = each * units
        if math.prod(grid) > resident:
            return refused(
                Limit.COOPERATIVE,
                f"a cooperative launch of {math.prod(grid)} blocks of {threads} threads",
                f"{resident} at most, {each} on each of {units} multiprocessors",
            )
    return None
