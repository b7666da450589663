"""What follows from a thread's place in its block alone, for every thread of a block one by one.

Compilers place rows of shared memory by the bits of a thread's number: xor and masks that no
arithmetic over the integers says much of. Where a block's extents are known there are 1,024
threads at most, and all are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptxsan.prove.machine import Thread
from ptxsan.prove.solver import closure
from ptxsan.prove.terms import (
    Atom,
    Bits,
    Choice,
    Flag,
    Formula,
    Poly,
    Symbol,
    atoms_of,
    holds,
    literals,
    value_of,
)

_LETTERS = "xyz"
_NESTED = 8
_NOBODY = Atom(0, "what is nested too deeply", None, None, Symbol())


class _Place(dict[Atom, int]):
    """A thread's coordinates; no value depends on what else has one."""

    def __missing__(self, atom: Atom) -> int:
        return 0


@dataclass(slots=True)
class Threads:
    """All threads of a block. `places` has their coordinates; empty where extents are not known."""

    thread: Thread
    places: tuple[Mapping[Atom, int], ...] = field(init=False)
    _symbols: frozenset[Atom] = field(init=False)
    _alone: dict[Atom, bool] = field(default_factory=dict)
    _offsets: dict[Poly, list[int] | None] = field(default_factory=dict)
    _admitted: dict[tuple[Formula, ...], list[bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        special = self.thread.special
        atoms = [next(iter(special[f"%tid.{letter}"].atoms), None) for letter in _LETTERS]
        self._symbols = frozenset(one for one in atoms if one is not None)
        x, y, z = (special[f"%ntid.{letter}"].constant or 0 for letter in _LETTERS)
        self.places = tuple(
            _Place({t: at for t, at in zip(atoms, (a, b, c), strict=True) if t is not None})
            for c in range(z) for b in range(y) for a in range(x)
            if x * y * z <= 1024
        )  # fmt: skip

    def alone(self, atom: Atom) -> bool:
        """Whether an atom says nothing but where in its block a thread is."""
        if atom not in self._alone:
            # Facts define all atoms but operations on bits; where one of them does not mention a
            # symbol that the meaning does, an address say, the value does not depend on it.
            inside = closure({atom})
            for _ in range(_NESTED):
                operands = {
                    each
                    for one in inside
                    if isinstance(one.meaning, Bits)
                    for each in one.meaning.left.atoms | one.meaning.right.atoms
                }
                if operands <= inside:
                    break
                inside = closure(inside | operands)
            else:
                inside = inside | {_NOBODY}
            plain = {one for one in inside if isinstance(one.meaning, Symbol)}
            self._alone[atom] = plain <= self._symbols and not any(
                isinstance(one.meaning, Choice) and _has_flag(one.meaning.formula)
                for one in inside  # what only memory tells chooses between two values
            )
        return self._alone[atom]

    def tell(self, formula: Formula) -> bool:
        """Whether a formula follows from a thread's place alone."""
        if _has_flag(formula):
            return False
        return bool(self.places) and all(map(self.alone, atoms_of(formula)))

    def rest(self, offset: Poly) -> Poly:
        """Return the terms of an offset that do not follow from a thread's place alone."""
        return Poly({m: c for m, c in offset.terms.items() if not all(map(self.alone, m))})

    def offsets(self, offset: Poly) -> list[int] | None:
        """Return what of an offset follows from the place, a thread each; None: it is mixed."""
        if offset not in self._offsets:
            mixed = closure(self.rest(offset).atoms) & self._symbols
            plain = offset - self.rest(offset)
            self._offsets[offset] = (
                None if mixed or not self.places
                else [value_of(plain, place, {}) for place in self.places]
            )  # fmt: skip
        return self._offsets[offset]

    def admitted(self, path: Sequence[Formula]) -> list[bool]:
        """Return which threads a path admits by their places alone."""
        plain = tuple(one for one in path if self.tell(one))
        if plain not in self._admitted:
            self._admitted[plain] = [
                all(holds(one, place, {}) for one in plain) for place in self.places
            ]
        return self._admitted[plain]

    def hold(self, path: Sequence[Formula], goal: Formula) -> bool:
        """Whether a goal follows from the place of each thread that a path admits."""
        if not self.tell(goal):
            return False
        admitted = self.admitted(path)
        return all(
            holds(goal, place, {})
            for place, runs in zip(self.places, admitted, strict=True)
            if runs
        )


def _has_flag(formula: Formula) -> bool:
    return any(isinstance(one, Flag) for one in literals(formula))
