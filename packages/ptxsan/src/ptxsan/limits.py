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
_BLOCK = (1024, 1024, 64)
_GRID = (2**31 - 1, 65535, 65535)
_STATIC = 48 << 10
_KIB = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227,
        103: 227, 110: 227, 120: 99, 121: 99}  # fmt: skip
MOST_SHARED = max(_KIB.values()) << 10  # bytes of a block, on any of them
_CLUSTER = 16  # 8 unless the program asks for more


class Limit(enum.Enum):
    """Which limit a launch exceeds."""

    EXTENTS = "extents of grid or block"
    THREADS = "threads a block"
    BOUND = "threads that the kernel is compiled for"
    CLUSTER = "blocks of a cluster"
    STATIC = "static shared memory"
    DYNAMIC = "dynamic shared memory that the kernel is allowed"
    SHARED = "shared memory a block"


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
) -> Refusal | None:
    """Return why a GPU of compute capability `arch` (80) refuses a launch; None if it accepts it.

    `directives` are those of the PTX (maxntid, reqntid). Shared memory is in bytes;
    `allowed_bytes` is the dynamic shared memory that cudaFuncSetAttribute allows, where known.
    """

    def refused(limit: Limit, what: str, most: str) -> Refusal:
        return Refusal(limit=limit, text=f"kernel '{kernel}': {what}; sm_{arch} takes {most}")

    threads = math.prod(block)
    for name, given, most in (("block", block, _BLOCK), ("grid", grid, _GRID)):
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
    if static_bytes > _STATIC:
        return refused(
            Limit.STATIC, f"{static_bytes} bytes of static shared memory", f"{_STATIC} at most"
        )
    if allowed_bytes is not None and dynamic_bytes > allowed_bytes:
        return refused(
            Limit.DYNAMIC,
            f"{dynamic_bytes} bytes of dynamic shared memory",
            f"{allowed_bytes} at most unless cudaFuncSetAttribute allows more",
        )
    shared, room = static_bytes + dynamic_bytes, _KIB.get(arch, 48) << 10
    if shared > room:
        return refused(Limit.SHARED, f"{shared} bytes of shared memory a block", f"{room} at most")
    return None
