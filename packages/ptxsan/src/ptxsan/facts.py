"""Which registers can hold an uninitialised value, in part, and which can carry a float's shadow.

Both are over-approximations without regard to control flow; what is left out costs nothing at run
time. A register carries a shadow if its value can come from a float and can end in one. Its bytes
are told apart if parts of it are put together or taken out somewhere, as packed halves are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ptxsan import isa
from ptxsan.dataflow import Liveness, definitions, registers_of, uses
from ptxsan.emit.values import width_of
from ptxsan.isa import Defined, Memory, Shadow
from ptxsan.syntax import Address, Immediate, Instruction, Vector

_Test = Callable[[Instruction], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Registers by name: `poisonable` may be uninitialised, `split` of those byte by byte;
    `shadowed` may carry a shadow.
    """

    poisonable: frozenset[str]
    shadowed: frozenset[str]
    split: frozenset[str]


def collect(body: Sequence[Instruction], liveness: Liveness, registers: Mapping[str, str]) -> Facts:
    """Return the facts of a flat program; `registers` are those that are declared, with types."""
    start = {name for name in liveness.before(0) if name in registers}
    poisonable = _forward(
        body, start, lambda one: _from_memory(one) or isa.row(one).defined is Defined.OTHERS
    )
    sources = _forward(body, set(), _gives_shadow, through=_moves_shadow)
    sinks: set[str] = set()
    changed = True
    while changed:
        changed = False
        for one in body:
            row = isa.row(one)
            stores = row.memory in (Memory.WRITE, Memory.UPDATE)
            wanted = isa.is_float(one) or stores or row.shadow is Shadow.PRODUCED
            if wanted or (_moves_shadow(one) and not sinks.isdisjoint(definitions(one))):
                # Registers whose values count: predicates and addresses carry no shadow.
                named: set[str] = set()
                for operand in one.operands:
                    if not isinstance(operand, Address):
                        named.update(registers_of(operand))
                if not sinks.issuperset(named):
                    sinks.update(named)
                    changed = True
    # A register of 16 bits has parts where pairs of 8-bit floats are made or taken apart.
    widths = (16, 32, 64) if any(map(isa.packs_bytes, body)) else (32, 64)
    wide = {
        name for name in poisonable if name in registers and width_of(registers[name]) in widths
    }
    # The wide registers that parts are taken out of or put into (memory may do that, where anything
    # narrow is loaded from it), and those that are copied to or from such a register
    reads = [one for one in body if isa.row(one).memory is Memory.READ]
    narrow = any(isa.bits_of(one) < 32 for one in reads)
    # of a structure's copy on the stack, members are loaded by themselves
    members = any(isa.bits_of(one) < 64 and isa.space_of(one) in _STACK for one in reads)
    split: set[str] = set()
    copies: dict[str, set[str]] = {}
    for one in body:
        row = isa.row(one)
        named = wide.intersection((*definitions(one), *uses(one)))
        if not named:
            continue
        written = isa.row(one).memory is Memory.WRITE
        onto_stack = members and isa.bits_of(one) == 64 and isa.space_of(one) in _STACK
        if _takes_apart(one) or (written and (narrow or onto_stack)):
            split |= named
        elif row.copies:
            for name in named:
                copies.setdefault(name, set()).update(named)
    waiting = list(split)
    while waiting:
        fresh = copies.get(waiting.pop(), set()) - split
        split |= fresh
        waiting += fresh
    return Facts(
        poisonable=frozenset(poisonable),
        shadowed=frozenset(sources & sinks),
        split=frozenset(split),
    )


_STACK = ("local", "generic")  # generic: it may be


def _takes_apart(one: Instruction) -> bool:
    """Whether an instruction moves parts of registers, or computes with packed halves."""
    if isa.packs_bytes(one):
        return True
    if isa.row(one).defined is Defined.HALVES:
        return isa.packs_halves(one)
    if isa.row(one).defined is not Defined.BYTES:
        return False
    if isa.row(one).copies and not isa.permutes(one):
        return any(isinstance(operand, Vector) for operand in one.operands)
    constant = any(isinstance(operand, Immediate) for operand in one.operands)
    return constant or isa.converts(one) or isa.packs_halves(one)


def _from_memory(one: Instruction) -> bool:
    return isa.row(one).memory in (Memory.READ, Memory.UPDATE) and isa.space_of(one) != "param"


def _gives_shadow(one: Instruction) -> bool:
    computed = isa.is_float(one) or isa.row(one).shadow is Shadow.PRODUCED
    return computed or _from_memory(one)


def _moves_shadow(one: Instruction) -> bool:
    return isa.is_float(one) or isa.row(one).shadow in (Shadow.MOVED, Shadow.LOADED)


def _forward(
    body: Sequence[Instruction], start: set[str], gives: _Test, through: _Test = lambda _: True
) -> set[str]:
    found, changed = set(start), True
    while changed:
        changed = False
        for one in body:
            written = definitions(one)
            if not written or found.issuperset(written):
                continue
            if gives(one) or (through(one) and not found.isdisjoint(uses(one))):
                found.update(written)
                changed = True
    return found
