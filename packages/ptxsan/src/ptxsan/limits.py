"""What a GPU of an architecture refuses to launch.

Reference: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import math

from ptxsan.errors import LaunchError
from ptxsan.launch import Launch
from ptxsan.program import Program

_THREADS = 1024
_BLOCK = (1024, 1024, 64)
_GRID = (2**31 - 1, 65535, 65535)
_STATIC = 48 << 10
_KIB = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227,
        103: 227, 110: 227, 120: 99, 121: 99}  # fmt: skip
_CLUSTER = 16  # 8 unless the program asks for more


def demand(program: Program, launch: Launch, arch: int) -> None:
    """Raise LaunchError where no GPU of compute capability `arch` (80) accepts a launch."""

    def refuse(what: str, most: str) -> None:
        raise LaunchError(f"kernel '{program.name}': {what}; sm_{arch} takes {most}")

    threads = math.prod(launch.block)
    for name, given, most in (("block", launch.block, _BLOCK), ("grid", launch.grid, _GRID)):
        if any(not 1 <= one <= limit for one, limit in zip(given, most, strict=True)):
            refuse(f"a {name} of {given}", f"1 to {most} along x, y and z")
    if threads > _THREADS:
        refuse(f"{threads} threads a block", f"{_THREADS} at most")
    bound = program.directives.get("maxntid")
    if bound and threads > math.prod(bound):
        refuse(
            f"{threads} threads a block, compiled for {math.prod(bound)} (__launch_bounds__)",
            f"no more than it is compiled for, {math.prod(bound)}",
        )
    exact = (*program.directives.get("reqntid", ()), 1, 1, 1)[:3]
    if "reqntid" in program.directives and exact != launch.block:
        refuse(f"a block of {launch.block}, compiled for {exact}", f"only {exact}")
    if math.prod(launch.cluster) > _CLUSTER:
        refuse(f"a cluster of {launch.cluster} blocks", f"{_CLUSTER} at most")
    static = sum(one.bytes for one in program.shared)
    if static > _STATIC:
        refuse(f"{static} bytes of static shared memory", f"{_STATIC} at most")
    shared, room = static + launch.dynamic_shared_bytes, _KIB.get(arch, 48) << 10
    if shared > room:
        refuse(f"{shared} bytes of shared memory a block", f"{room} at most")
