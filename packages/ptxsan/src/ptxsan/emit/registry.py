"""Which function gives an instruction its meaning.

An emitter is attached to the rows of a base opcode in `isa.TABLE`, for the types it knows (the
last part of the opcode) and for a condition; the most specific one wins: condition, then types,
then neither.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ptxsan import isa
from ptxsan.syntax import Instruction

if TYPE_CHECKING:
    from ptxsan.emit.context import Emit

    Emitter = Callable[[Emit, Instruction], None]

_FAMILIES = (
    "integer",
    "compare",
    "logic",
    "moves",
    "control",
    "memory",
    "atomics",
    "warp",
    "barriers",
    "float32",
    "float64",
    "halves",
    "float_tests",
    "conversions",
    "small_floats",
    "float_atomics",
    "matrix",
    "wgmma",
    "copies",
    "mbarriers",
    "clusters",
    "bulk_copies",
    "async_stores",
    "tensor_maps",
    "simd_video",
    "small_dots",
    "calls",
    "textures",
    "tensor_memory",
    "launch_control",
)


@dataclass(frozen=True, slots=True)
class _Entry:
    types: frozenset[str] | None
    where: Callable[[Instruction], bool] | None
    emitter: Emitter

    def fits(self, instruction: Instruction) -> bool:
        if self.types is not None and instruction.parts[-1] not in self.types:
            return False
        return self.where is None or self.where(instruction)

    def rank(self) -> int:
        return (self.where is not None) * 2 + (self.types is not None)


_ENTRIES: dict[str, list[_Entry]] = {}


def emits(
    *bases: str,
    types: tuple[str, ...] | None = None,
    where: Callable[[Instruction], bool] | None = None,
) -> Callable[[Emitter], Emitter]:
    """Register the emitter of base opcodes, for some types or under a condition."""

    def register(emitter: Emitter) -> Emitter:
        entry = _Entry(None if types is None else frozenset(types), where, emitter)
        assert isa.BASES.issuperset(bases), f"no row of isa.TABLE for one of {bases}"
        for base in bases:
            entries = _ENTRIES.setdefault(base, [])
            entries.append(entry)
            entries.sort(key=_Entry.rank, reverse=True)
        return emitter

    return register


def modules(base: str) -> frozenset[str]:
    """Return the modules whose emitters give a base opcode its meaning."""
    load_families()
    return frozenset(one.emitter.__module__ for one in _ENTRIES.get(base, ()))


@cache
def load_families() -> None:
    """Import every family once, so that its emitters are registered."""
    for name in _FAMILIES:
        importlib.import_module(f"ptxsan.emit.{name}")


def find(instruction: Instruction) -> Emitter | None:
    """Return the emitter of an instruction, or None where its spelling is unknown."""
    load_families()
    for entry in _ENTRIES.get(instruction.base, ()):
        if entry.fits(instruction):
            return entry.emitter
    return None
