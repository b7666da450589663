"""Which registers can hold an uninitialised value, and which can carry a float's shadow.

Both are over-approximations without regard to control flow; what is left out costs nothing at run
time. A register carries a shadow if its value can come from a float and can end in one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ptxsan import isa
from ptxsan.dataflow import Liveness, definitions, registers_of, uses
from ptxsan.isa import Defined, Memory, Shadow
from ptxsan.syntax import Address, Instruction

_Test = Callable[[Instruction], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Registers by name: `poisonable` may be uninitialised, `shadowed` may carry a shadow."""

    poisonable: frozenset[str]
    shadowed: frozenset[str]


def collect(body: Sequence[Instruction], liveness: Liveness, registers: Collection[str]) -> Facts:
    """Return the facts of a flat program; `registers` are those that are declared."""
    start = {name for name in liveness.before(0) if name in registers}
    poisonable = _forward(body, start, _gives_poison)
    sources = _forward(body, set(), _gives_shadow, through=_moves_shadow)
    sinks = _backward(body)
    return Facts(poisonable=frozenset(poisonable), shadowed=frozenset(sources & sinks))


def _from_memory(one: Instruction) -> bool:
    return isa.row(one).memory in (Memory.READ, Memory.UPDATE) and isa.space_of(one) != "param"


def _gives_poison(one: Instruction) -> bool:
    return _from_memory(one) or isa.row(one).defined is Defined.OTHERS


def _gives_shadow(one: Instruction) -> bool:
    computed = isa.is_float(one) or isa.row(one).shadow is Shadow.PRODUCED
    return computed or _from_memory(one)


def _moves_shadow(one: Instruction) -> bool:
    return isa.is_float(one) or isa.row(one).shadow in (Shadow.MOVED, Shadow.LOADED)


def _always(_one: Instruction) -> bool:
    return True


def _forward(
    body: Sequence[Instruction], start: set[str], gives: _Test, through: _Test = _always
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


def _backward(body: Sequence[Instruction]) -> set[str]:
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for one in body:
            row = isa.row(one)
            stores = row.memory in (Memory.WRITE, Memory.UPDATE)
            wanted = isa.is_float(one) or stores or row.shadow is Shadow.PRODUCED
            if wanted or (_moves_shadow(one) and not found.isdisjoint(definitions(one))):
                named = _values(one)
                if not found.issuperset(named):
                    found.update(named)
                    changed = True
    return found


def _values(one: Instruction) -> set[str]:
    """Registers whose values count: predicates and addresses carry no shadow."""
    names: set[str] = set()
    for operand in one.operands:
        if not isinstance(operand, Address):
            names.update(registers_of(operand))
    return names
