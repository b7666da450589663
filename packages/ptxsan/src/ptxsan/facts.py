"""Which registers can hold an uninitialised value, and which can carry a float's shadow.

Both are over-approximations without regard to control flow; what is left out costs nothing at run
time. A register carries a shadow if its value can come from a float and can end in one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ptxsan.dataflow import Liveness, definitions, registers_of, uses
from ptxsan.syntax import Address, Instruction

FLOATS = frozenset(
    ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "e4m3", "e5m2", "e4m3x2", "e5m2x2")
)
_MOVES = frozenset(("mov", "shfl", "selp", "prmt", "movmatrix", "ldmatrix", "cvt", "redux"))
_MEMORY = frozenset(("ld", "ldu", "atom", "wmma", "ldmatrix"))
_STORES = frozenset(("st", "red", "atom", "stmatrix", "wmma"))


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


def is_float(instruction: Instruction) -> bool:
    """Whether an instruction computes with floating-point numbers."""
    return any(part in FLOATS for part in instruction.parts[1:])


def _from_memory(one: Instruction) -> bool:
    return one.base in _MEMORY and "param" not in one.parts


def _gives_poison(one: Instruction) -> bool:
    return _from_memory(one) or one.base in ("shfl", "call", "match", "mbarrier")


def _gives_shadow(one: Instruction) -> bool:
    return is_float(one) or _from_memory(one) or one.base in ("mma", "wgmma", "call")


def _moves_shadow(one: Instruction) -> bool:
    return one.base in _MOVES or is_float(one) or one.base in ("shl", "shr", "and", "or", "xor")


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
            wanted = is_float(one) or one.base in _STORES or one.base in ("mma", "wgmma")
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
