"""Whether control and addresses depend on what memory holds.

A kernel is data-oblivious if no branch, no address, no lane mask and no barrier operand comes
from memory that the launch was given: then races, bounds, initialisation and barriers are the
same for all contents of its buffers. Registers are followed without regard to control flow;
anything loaded from global memory is data, and so is anything loaded from shared or local memory
into which data was stored.
"""

from __future__ import annotations

from ptxsan.dataflow import definitions, registers_of, uses
from ptxsan.emit.memory import space_of
from ptxsan.program import Program
from ptxsan.syntax import Address, Instruction, Register, Symbol

_SOURCES = frozenset(("ld", "ldu", "atom", "wmma", "ldmatrix"))
_WRITES = frozenset(("st", "cp", "stmatrix", "wmma", "red", "atom"))
_LANES = {"shfl": 4, "vote": 2, "match": 2, "redux": 2}
_HINTS = frozenset(("prefetch", "prefetchu"))


def data_dependent(program: Program) -> tuple[int, ...]:
    """Return the PTX lines where a branch or an address depends on data; empty: oblivious."""
    tainted = _tainted(program)
    lines = {one.line for one in program.body if not tainted.isdisjoint(_steering(one))}
    return tuple(sorted(lines))


def _tainted(program: Program) -> set[str]:
    found: set[str] = set()
    memory: set[str] = {"global", "generic"}  # spaces that hold data
    changed = True
    while changed:
        changed = False
        for one in program.body:
            if (one.base in _WRITES and not found.isdisjoint(_stored(one))) or one.base == "cp":
                space = _space_written(one)
                if space not in memory:
                    memory.add(space)
                    changed = True
            written = definitions(one)
            if not written or found.issuperset(written):
                continue
            if _is_data(one, memory) or not found.isdisjoint(uses(one)):
                found.update(written)
                changed = True
    return found


def _is_data(one: Instruction, memory: set[str]) -> bool:
    return one.base in _SOURCES and space_of(one) in memory


def _stored(one: Instruction) -> set[str]:
    names: set[str] = set()
    for operand in one.operands:
        if not isinstance(operand, Address):
            names.update(registers_of(operand))
    return names


def _space_written(one: Instruction) -> str:
    return "shared" if one.base == "cp" else space_of(one)


def _steering(one: Instruction) -> set[str]:
    """Registers that decide where an instruction goes, whether it runs, or what it touches."""
    names = {one.predicate.name} if one.predicate is not None else set()
    if one.base in _HINTS:
        return set()
    for operand in one.operands:
        if isinstance(operand, Address):
            names.update(registers_of(operand))
    if one.base in ("bar", "barrier"):
        names.update(name for operand in one.operands for name in registers_of(operand))
    index = _LANES.get(one.base)
    if index is not None and index < len(one.operands):
        names.update(registers_of(one.operands[index]))
    return names


def writes_globals(program: Program) -> bool:
    """Whether the module's own variables are used at all."""
    names = {one.name for one in program.globals}
    return any(
        isinstance(operand, Symbol | Register) and operand.name in names
        for one in program.body
        for operand in one.operands
    )
