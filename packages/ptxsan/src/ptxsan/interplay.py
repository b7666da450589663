"""How the blocks of a kernel can see each other while they run: that decides who may run at once.

Blocks that only update global memory, and look at nothing that any of them updates, see nothing
of each other: the updates can be carried out later, in the order of the blocks
(runtime/deferred.py). An update is read if its old value is: PTX's `red` gives none, and a
compiler writes `atom` with a result that no instruction uses for the same thing. Who reads nothing
learns nothing, so such an update acquires nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ptxsan import isa
from ptxsan.dataflow import definitions, uses
from ptxsan.emit.values import width_of
from ptxsan.program import Program
from ptxsan.syntax import Instruction

_OWN = frozenset(("shared", "local"))


class Interplay(Enum):
    """What blocks see of each other: nothing, sums that they add to, or anything."""

    APART = auto()
    UPDATES = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The atomics of a kernel: those that nobody reads (by index), whether they can be carried
    out later, and whether anything of the kernel learns of a release."""

    unread: frozenset[int]
    deferrable: bool
    heard: bool


def updates_of(program: Program) -> Updates:
    """Return what is known of a kernel's atomics without running it."""
    return Updates(
        unread=unread_updates(program.body),
        deferrable=interplay(program) is Interplay.UPDATES,
        heard=acquires(program.body),
    )


def unread_updates(body: Sequence[Instruction]) -> frozenset[int]:
    """Return the indices of atomic instructions whose old value nobody reads."""
    used = {name for one in body for name in uses(one)}
    return frozenset(
        index
        for index, one in enumerate(body)
        if isa.is_atomic(one) and used.isdisjoint(definitions(one))
    )


def acquires(body: Sequence[Instruction]) -> bool:
    """Whether anything in a kernel learns of releases: a strong load, an atomic that is read."""
    unread = unread_updates(body)
    return any(
        (isa.is_load(one) and isa.is_strong(one)) or (isa.is_atomic(one) and index not in unread)
        for index, one in enumerate(body)
    )


def interplay(program: Program) -> Interplay:
    """Return what the blocks of a kernel can see of each other."""
    unread = unread_updates(program.body)
    updates = False
    for index, one in enumerate(program.body):
        if _lets_in(one):
            return Interplay.ANY
        if isa.is_atomic(one) and isa.space_of(one) != "shared":
            # What is deferred is one operand of at most 64 bits for each element.
            wide = isa.swaps_in_memory(one) or width_of(one.parts[-1]) > 64
            if index not in unread or wide:
                return Interplay.ANY
            updates = True
    if updates and program.asynchronous:
        return Interplay.ANY
    return Interplay.UPDATES if updates else Interplay.APART


def _lets_in(one: Instruction) -> bool:
    """Whether an instruction other than an atomic lets blocks see each other."""
    if isa.row(one).calls or isa.in_cluster(one) or isa.takes_blocks(one):
        return True
    if isa.reduces_in_memory(one):
        return True
    return not isa.is_atomic(one) and isa.is_strong(one) and isa.space_of(one) not in _OWN
