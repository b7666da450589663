"""Which blocks of a kernel lie behind each of its barriers and warp operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan import isa
from ptxsan.program import Program


def barrier_reach(program: Program) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return (row of each instruction, matrix): matrix[row, block] is 1 behind the barrier.

    Blocks that only return are left out: whoever leaves the kernel early goes there too.
    """
    rows = np.zeros(len(program.body) + 1, np.uint32)
    matrix = [np.zeros(len(program.blocks) + 1, np.uint8)]
    for number, block in enumerate(program.blocks):
        sites = [
            site for site in range(block.start, block.end) if isa.row(program.body[site]).joins
        ]
        if not sites:
            continue
        # The blocks that can follow this one, but for those that only leave.
        behind = np.zeros(len(program.blocks) + 1, np.uint8)
        todo = list(program.blocks[number].successors)
        while todo:
            reached = todo.pop()
            if not behind[reached]:
                behind[reached] = 1
                todo += program.blocks[reached].successors
        for reached, other in enumerate(program.blocks):
            if all(map(isa.leaves, program.body[other.start : other.end])):
                behind[reached] = 0
        matrix += [behind, behind.copy()]
        matrix[-1][number] = 1  # lanes whose predicate is off go past within the block
        for site in sites:
            skipped = program.body[site].predicate is not None and site + 1 < block.end
            rows[site] = len(matrix) - (1 if skipped else 2)
    return rows, np.stack(matrix)
