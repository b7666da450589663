"""What strong accesses of a kernel are for: waiting, or carrying data.

Strong accesses (volatile, relaxed, atomics) that nothing orders are no data race in PTX's memory
model, and most of them are meant so: locks, flags and counters. What is worth a note is data
whose value hangs on who came first. A read is *polled* where a loop around it goes on until its
value says so: whoever waits for a value needs no other order. It *carries data* where its value
reaches memory, an address or another thread; a value that only decides branches does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxsan import isa
from ptxsan.dataflow import Block, definitions, registers_of, uses
from ptxsan.isa import Memory
from ptxsan.program import Program
from ptxsan.runtime import layout as L
from ptxsan.syntax import Address, Instruction

_OWN_NUMBERS = frozenset(("%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid"))


def table_of(program: Program) -> NDArray[np.uint8] | None:
    """Return the roles (bits of layout) of every instruction; None where no access is strong."""
    body = program.body
    strong = [
        index
        for index, one in enumerate(body)
        if not isa.is_asynchronous(one)
        and (isa.is_atomic(one) or (isa.is_strong(one) and (isa.is_load(one) or _stores(one))))
    ]
    if not strong:
        return None
    table = np.zeros(len(body), np.uint8)
    # The natural loops: the blocks between each jump back and what dominates it.
    before, dominators = _predecessors(program.blocks), _dominators(program.blocks)
    loops = []
    for number, block in enumerate(program.blocks):
        for head in block.successors:
            if head in dominators[number]:
                # The body of the loop: what reaches its end without its head.
                found, left = {head}, [number]
                while left:
                    one = left.pop()
                    if one not in found:
                        found.add(one)
                        left.extend(before[one])
                loops.append(frozenset(found))
    for index in strong:
        table[index] = _role(program, index, loops)
    polled = {_place(body[index]) for index in strong if table[index] & L.POLLED}
    for index in strong:  # a compiler may take the first turn of a loop out of it
        if table[index] & L.LOADS and _place(body[index]) in polled:
            table[index] |= L.POLLED
    return table


def _stores(one: Instruction) -> bool:
    return isa.value_stored(one) is not None


def is_replicated(program: Program, load: int, update: int) -> bool:
    """Whether all threads of a block execute a load, and one, chosen by its number, updates.

    Both addresses and the load's being executed hang on no thread's number, and what is stored is
    guarded by a predicate that does; the load is on every way to the update.
    """
    body, blocks = program.body, program.blocks
    if not (isa.is_load(body[load]) and isa.is_atomic(body[update])):
        return False
    guard = body[update].predicate
    own = _reached(body, frozenset(name for one in body for name in _numbers(one)))
    own -= frozenset(definitions(body[load]))
    steering = {name for operand in body[load].operands[1:] for name in registers_of(operand)}
    steering |= {
        name
        for operand in body[update].operands
        if isinstance(operand, Address)
        for name in registers_of(operand)
    }
    if guard is None or guard.name not in own or not own.isdisjoint(steering):
        return False
    number = {n: k for k, each in enumerate(blocks) for n in range(each.start, each.end)}
    before = number[load] in _dominators(blocks)[number[update]]
    return before and (number[load] != number[update] or load < update)


def _numbers(one: Instruction) -> tuple[str, ...]:
    """Return what an instruction writes that differs from thread to thread of a block."""
    names = {name for operand in one.operands for name in registers_of(operand)}
    apart = isa.is_atomic(one) or not names.isdisjoint(_OWN_NUMBERS)
    return definitions(one) if apart else ()


def _place(one: Instruction) -> tuple[str, str]:
    where = next((str(operand) for operand in one.operands if isinstance(operand, Address)), "")
    return one.opcode, where


def _role(program: Program, index: int, loops: Sequence[frozenset[int]]) -> int:
    one = program.body[index]
    if _stores(one):
        return L.STORES
    role = L.UPDATES if isa.is_atomic(one) else L.LOADS
    value = _reached(program.body, frozenset(definitions(one)), through_shared=True)
    if not value:
        return role
    if any(_gives_away(other, value) for other in program.body):
        role |= L.CARRIES
    block = next(n for n, each in enumerate(program.blocks) if each.start <= index < each.end)
    around = min((loop for loop in loops if block in loop), key=len, default=frozenset[int]())
    for number in around:
        last = program.body[program.blocks[number].end - 1]
        leaves = not around.issuperset(program.blocks[number].successors)
        if leaves and last.predicate is not None and last.predicate.name in value:
            role |= L.POLLED
    return role


def _reached(
    body: Sequence[Instruction], start: frozenset[str], *, through_shared: bool = False
) -> set[str]:
    """Return the registers that values of some registers reach.

    With `through_shared` also by way of shared memory at an address that is spelt the same: so one
    thread tells its block what it has read.
    """
    found, cells, grown = set(start), set[str](), True
    while grown:
        before = len(found), len(cells)
        for one in body:
            if not found.isdisjoint(uses(one)):
                found.update(definitions(one))
            if not through_shared or isa.space_of(one) != "shared":
                continue
            stored, (_, where) = isa.value_stored(one), _place(one)
            if stored is not None and not found.isdisjoint(registers_of(stored)):
                cells.add(where)
            elif isa.is_load(one) and where in cells:
                found.update(definitions(one))
        grown = (len(found), len(cells)) > before
    return found


def _gives_away(one: Instruction, value: set[str]) -> bool:
    """Whether an instruction puts a value into memory, an address, or before another thread."""
    given = {name for operand in one.operands for name in registers_of(operand)}
    given -= set(definitions(one))
    row = isa.row(one)
    if row.joins or row.calls or row.memory in (Memory.WRITE, Memory.UPDATE, Memory.COPY):
        return not value.isdisjoint(given)
    addresses = (operand for operand in one.operands if isinstance(operand, Address))
    return any(not value.isdisjoint(registers_of(operand)) for operand in addresses)


def _predecessors(blocks: Sequence[Block]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].append(number)
    return before


def _dominators(blocks: Sequence[Block]) -> list[frozenset[int]]:
    """Return for each block those that are on every way to it."""
    before = _predecessors(blocks)
    everything = frozenset(range(len(blocks)))
    found = [frozenset((0,)), *[everything] * (len(blocks) - 1)]
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            over = [found[one] for one in before[number]]
            new = frozenset.intersection(*over) | {number} if over else frozenset((number,))
            changed |= new != found[number]
            found[number] = new
    return found
