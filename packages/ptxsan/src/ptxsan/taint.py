"""Whether control and addresses depend on what memory holds.

A kernel is data-oblivious if no branch, no address, no lane mask and no barrier operand comes
from memory that the launch was given: then races, bounds, initialisation and barriers are the
same for all contents of its buffers. Registers are followed without regard to control flow;
anything loaded from global memory is data, and so is anything loaded from shared or local memory
into which data was stored.
"""

from __future__ import annotations

from ptxsan import isa
from ptxsan.dataflow import definitions, registers_of, uses
from ptxsan.isa import Memory
from ptxsan.program import Program
from ptxsan.syntax import Address, Instruction


def data_dependent(program: Program) -> tuple[int, ...]:
    """Return the PTX lines where a branch or an address depends on data; empty: oblivious."""
    tainted: set[str] = set()
    memory: set[str] = {"global", "generic"}  # spaces that hold data
    changed = True
    while changed:
        changed = False
        for one in program.body:
            space = isa.space_of(one)
            if space not in memory and _puts_data(one, tainted, memory):
                memory.add(space)
                changed = True
            written = definitions(one)
            if not written or tainted.issuperset(written):
                continue
            if _is_data(one, memory) or not tainted.isdisjoint(uses(one)):
                tainted.update(written)
                changed = True
    lines = {one.line for one in program.body if not tainted.isdisjoint(_steering(one))}
    return tuple(sorted(lines))


def _is_data(one: Instruction, memory: set[str]) -> bool:
    """Whether the result is, in part, what lies in memory that holds data."""
    if isa.row(one).fetches:
        return True
    reads = isa.row(one).memory in (Memory.READ, Memory.UPDATE)
    return reads and isa.space_read(one) in memory


def _puts_data(one: Instruction, tainted: set[str], memory: set[str]) -> bool:
    """Whether data gets into the space that an instruction writes."""
    match isa.row(one).memory:
        case Memory.WRITE | Memory.UPDATE:
            return not tainted.isdisjoint(_stored(one))
        case Memory.COPY:
            return isa.space_read(one) in memory
        case Memory.READ | Memory.HINT | Memory.NONE:
            return False


def _stored(one: Instruction) -> set[str]:
    names: set[str] = set()
    for operand in one.operands:
        if not isinstance(operand, Address):
            names.update(registers_of(operand))
    return names


def _steering(one: Instruction) -> set[str]:
    """Registers that decide where an instruction goes, whether it runs, or what it touches."""
    row = isa.row(one)
    if row.memory is Memory.HINT:
        return set()
    names = {one.predicate.name} if one.predicate is not None else set()
    for index, operand in enumerate(one.operands):
        if isinstance(operand, Address) or index in row.steers or isa.ALL in row.steers:
            names.update(registers_of(operand))
    return names
