"""Whether control and addresses depend on what memory holds.

A kernel is data-oblivious if no branch, no address, no lane mask and no barrier operand comes
from memory that the launch was given: then races, bounds, initialisation and barriers are the
same for all contents of its buffers. Registers are followed without regard to control flow;
anything loaded from global memory is data, and so is anything loaded from shared or local memory
into which data was stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsan import isa
from ptxsan.dataflow import definitions, registers_of, uses
from ptxsan.isa import Ends, Memory
from ptxsan.program import Program
from ptxsan.syntax import Address, Instruction, Symbol


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


def decided_by_data(program: Program, *, known: Mapping[str, bool] | None = None) -> frozenset[int]:
    """Return the PTX lines that data has a say in: whether they run, or where they point.

    All other lines run for the same threads at the same addresses whatever buffers hold, also
    where a branch beside them depends on data. A register that is written where data decides who
    comes counts as data itself. `known` has the parameters that are pointers, and says of each
    whether the memory behind it holds what a launch would find there: that counts as no data.
    """
    given = _loads_of_known(program, known or {})
    deciding = _deciding_blocks(program)
    block_of = {
        site: number
        for number, block in enumerate(program.blocks)
        for site in range(block.start, block.end)
    }
    tainted: set[str] = set()
    memory: set[str] = {"global", "generic"}
    by_data: set[int] = set()  # blocks that only some data leads to
    changed = True
    while changed:
        before = len(tainted), len(memory), len(by_data)
        for site, one in enumerate(program.body):
            here = block_of[site] in by_data
            space = isa.space_of(one)
            writes = isa.row(one).memory in (Memory.WRITE, Memory.UPDATE, Memory.COPY)
            puts = site not in given and _puts_data(one, tainted, memory)
            if space not in memory and ((here and writes) or puts):
                memory.add(space)
            fresh = site not in given and _is_data(one, memory)
            if here or fresh or not tainted.isdisjoint(uses(one)):
                tainted.update(definitions(one))
        for number, branches in deciding.items():
            last = (program.body[program.blocks[one].end - 1] for one in branches)
            if any(
                one.predicate is not None and one.predicate.name in tainted for one in last
            ) or not by_data.isdisjoint(branches):
                by_data.add(number)
        changed = before != (len(tainted), len(memory), len(by_data))
    return frozenset(
        one.line
        for site, one in enumerate(program.body)
        if block_of[site] in by_data or not tainted.isdisjoint(_steering(one))
    )


def _loads_of_known(program: Program, known: Mapping[str, bool]) -> frozenset[int]:
    """Return the sites of loads and copies from memory whose contents are known.

    Pointers are followed from parameters through registers, without regard to control flow: an
    address that some unknown pointer has a part in is none of these, nor is one of no pointer.
    """
    if not any(known.values()):
        return frozenset()
    parts: dict[str, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for one in program.body:
            found = frozenset[str]().union(*(parts.get(name, ()) for name in uses(one)))
            if isa.space_of(one) == "param":
                found |= {
                    operand.base.name
                    for operand in one.operands
                    if isinstance(operand, Address) and isinstance(operand.base, Symbol)
                } & known.keys()
            for name in definitions(one):
                if not found <= parts.get(name, frozenset()):
                    parts[name] = parts.get(name, frozenset()) | found
                    changed = True
    sites = set()
    for site, one in enumerate(program.body):
        if isa.row(one).memory not in (Memory.READ, Memory.COPY):
            continue
        if isa.space_read(one) not in ("global", "generic"):
            continue
        # The registers of the addresses of an instruction: of all of them, for a copy
        names: set[str] = set()
        for operand in one.operands:
            if isinstance(operand, Address):
                names.update(registers_of(operand))
        through = frozenset[str]().union(*(parts.get(name, ()) for name in names))
        if through and all(known[name] for name in through):
            sites.add(site)
    return frozenset(sites)


def _deciding_blocks(program: Program) -> dict[int, set[int]]:
    """Return, for every block, the blocks whose last instruction decides whether it runs.

    Control dependence: Ferrante, Ottenstein and Warren, "The Program Dependence Graph", 1987.
    """
    end = len(program.blocks)
    after: list[tuple[int, ...]] = []
    for block in program.blocks:
        last = program.body[block.end - 1]
        leaves = isa.row(last).ends not in (Ends.NO, Ends.JUMP) or not block.successors
        after.append((*block.successors, end) if leaves else block.successors)
    everything = (1 << (end + 1)) - 1
    always = [everything] * end + [1 << end]  # blocks on every way from here to the end
    changed = True
    while changed:
        changed = False
        for number in reversed(range(end)):
            common = everything
            for following in after[number]:
                common &= always[following]
            found = common | 1 << number
            changed = changed or found != always[number]
            always[number] = found
    decides: dict[int, set[int]] = {number: set() for number in range(end)}
    for number in range(end):
        for following in after[number]:
            strict = always[number] & ~(1 << number)
            only_here = always[following] & ~strict & ~(1 << end)
            while only_here:
                lowest = only_here & -only_here
                decides[lowest.bit_length() - 1].add(number)
                only_here ^= lowest
    return decides


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
            names: set[str] = set()
            for operand in one.operands:
                if not isinstance(operand, Address):
                    names.update(registers_of(operand))
            return not tainted.isdisjoint(names)
        case Memory.COPY:
            return isa.space_read(one) in memory
        case Memory.READ | Memory.HINT | Memory.NONE:
            return False


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
