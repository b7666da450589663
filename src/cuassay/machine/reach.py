"""Which blocks of a kernel lie behind each of its barriers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cuassay.machine.program import Program


def barrier_reach(program: Program) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return (row of each instruction, matrix): matrix[row, block] is 1 behind the barrier.

    Blocks that only return are left out: whoever leaves the kernel early goes there too.
    """
    rows = np.zeros(len(program.body) + 1, np.uint32)
    matrix = [np.zeros(len(program.blocks) + 1, np.uint8)]
    for number, block in enumerate(program.blocks):
        for site in range(block.start, block.end):
            if program.body[site].base in ("bar", "barrier"):
                rows[site] = len(matrix)
                matrix.append(_behind(program, number, rest=site + 1 < block.end))
    return rows, np.stack(matrix)


def _behind(program: Program, start: int, *, rest: bool) -> NDArray[np.uint8]:
    found = np.zeros(len(program.blocks) + 1, np.uint8)
    todo = list(program.blocks[start].successors)
    while todo:
        number = todo.pop()
        if not found[number]:
            found[number] = 1
            todo += program.blocks[number].successors
    for number, block in enumerate(program.blocks):
        if all(one.base in ("ret", "exit") for one in program.body[block.start : block.end]):
            found[number] = 0
    return found
