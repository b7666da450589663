"""Advice on speed: warps that touch many sectors at once, and bank conflicts.

The first warp of a launch is observed: the addresses of its lanes at the first executions of each
load and store. A global access touches sectors of 32 bytes; a shared one takes as many turns as
the busiest of 32 banks (4 bytes wide) has different words. Reference: CUDA C++ Best Practices
Guide, "Coalesced Access to Global Memory" and "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.launch import Launch
from ptxsan.lines import own_line
from ptxsan.program import Program
from ptxsan.records import LaunchState
from ptxsan.runtime import layout as L

_SECTOR, _BANKS = 32, 32
_WORSE = 4  # times the sectors or turns that would be needed


def table(program: Program) -> np.ndarray:
    """Return room for the observed addresses: for each instruction, execution and lane."""
    return np.zeros((len(program.body) + 1, L.OBSERVED, 32), np.uint64)


def advice(program: Program, launch: Launch, state: LaunchState) -> Iterator[MachineFinding]:
    """Yield advice on the accesses of the first warp."""
    if state.observed is None:
        return
    for site in np.flatnonzero(state.observed.any(axis=(1, 2))):
        if site >= len(program.body):
            continue
        for row in state.observed[site]:
            found = _judge(row)
            if found is not None:
                yield _finding(program, launch, int(site), *found)
                break


def _judge(row: np.ndarray) -> tuple[Kind, int, int] | None:
    """Return (kind, sectors or turns, those needed) where they are far too many."""
    used = row[row != 0]
    if used.size < 8:
        return None
    sizes = (used >> np.uint64(56)).astype(np.int64)
    addresses = (used & np.uint64((1 << 48) - 1)).astype(np.int64)
    size = int(sizes.max())
    if used[0] >> np.uint64(55) & np.uint64(1):
        words = np.unique(
            np.concatenate([addresses // 4 + part for part in range(max(1, size // 4))])
        )
        turns = max(Counter((words % _BANKS).tolist()).values())
        needed = max(1, size // 4)
        return (Kind.BANK_CONFLICT, turns, needed) if turns >= _WORSE * needed else None
    sectors = len(np.unique(addresses // _SECTOR))
    needed = max(1, -(-len(np.unique(addresses)) * size // _SECTOR))
    return (Kind.UNCOALESCED, sectors, needed) if sectors >= _WORSE * needed else None


def _finding(
    program: Program, launch: Launch, site: int, kind: Kind, seen: int, needed: int
) -> MachineFinding:
    instruction = program.body[site]
    source = own_line(instruction.source)
    what = (
        f"takes {seen} turns in the banks of shared memory where {needed} would do"
        if kind is Kind.BANK_CONFLICT
        else f"touches {seen} sectors of 32 bytes a warp where {needed} would do"
    )
    access = Access(
        what=instruction.opcode,
        ptx_line=instruction.line,
        source_file=source.file if source else None,
        source_line=source.line if source else None,
        block=(0, 0, 0),
        thread=(0, 0, 0),
    )
    return MachineFinding(
        kind=kind, severity=Severity.ADVICE, text=f"{instruction.opcode} {what}",
        accesses=(access,), measures={"seen": float(seen), "needed": float(needed)},
    )  # fmt: skip
