"""Registers of one symbolic thread on one path, and how two paths become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ptxsan.prove.solver import Solver
from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    All,
    AnyOf,
    Atoms,
    Eq,
    Flag,
    Formula,
    Le,
    Ne,
    Poly,
    conjunction,
    decided,
    disjunction,
    negated,
    of,
)

Value: TypeAlias = Poly | Le | Eq | Ne | Flag | All | AnyOf
Path: TypeAlias = tuple[Formula, ...]


_WORD = "local "  # no register's name has a space


def word(variable: str, offset: int, nbytes: int) -> str:
    """Return the name of what bytes of a variable of the thread's own hold, as if a register."""
    return f"{_WORD}{variable} {offset} {nbytes}"


@dataclass(slots=True)
class State:
    """What registers hold: a polynomial (mod 2^width), a formula (predicates); absent: anything.

    Words of local memory are among them, by the names that `word` gives.
    """

    registers: dict[str, Value] = field(default_factory=dict)

    @property
    def words(self) -> set[str]:
        """The names of the words of local memory that are known."""
        return {name for name in self.registers if name.startswith(_WORD)}

    def forget(self, variable: str, offset: int | None = None, nbytes: int = 0) -> None:
        """Forget the words of a variable that bytes at an offset are part of; None: all of it."""
        for name in self.words:
            _, held, start, length = name.split(" ")
            apart = offset is not None and (
                offset + nbytes <= int(start) or int(start) + int(length) <= offset
            )
            if held == variable and not apart:
                del self.registers[name]

    def copy(self) -> State:
        """Return a state that can change by itself."""
        return State(dict(self.registers))


def extended(path: Path, formula: Formula) -> Path | None:
    """Return a path on which a formula holds as well; None where it cannot."""
    formula = conjunction([formula])
    if formula == FALSE:
        return None
    items = formula.items if isinstance(formula, All) else (formula,)
    return (*path, *(item for item in items if item not in path))


def merged(
    arriving: list[tuple[Path, State]], live: Iterable[str], atoms: Atoms
) -> tuple[Path, State]:
    """Return the one path and state that stand for all that arrive; exact for live registers."""
    path, state = arriving[0]
    for other_path, other in arriving[1:]:
        common = 0
        for left, right in zip(path, other_path, strict=False):
            if left != right:
                break
            common += 1
        here = conjunction(path[common:])
        there = conjunction(other_path[common:])
        joined = disjunction([here, there])
        shared = path[:common]
        whole = shared if joined == TRUE else (*shared, joined)
        registers: dict[str, Value] = {}
        for name in sorted(live):  # new atoms are numbered in one order
            a, b = state.registers.get(name), other.registers.get(name)
            if a is None or b is None:
                continue
            value = chosen(atoms, here, a, b)
            if value is not None:
                registers[name] = value
        path, state = whole, State(registers)
    return path, state


def chosen(atoms: Atoms, formula: Formula, then: Value, other: Value) -> Value | None:
    """Return `then` where a formula holds, else `other`; None where they are of two kinds."""
    if then == other:
        return then
    if isinstance(then, Poly):
        return atoms.choice(formula, then, other) if isinstance(other, Poly) else None
    if isinstance(other, Poly):
        return None
    if formula == TRUE:
        return then
    if formula == FALSE:
        return other
    return disjunction([conjunction([formula, then]), conjunction([negated(formula), other])])


@dataclass(slots=True)
class Numbers:
    """Turns what a register holds modulo 2^width into the number that an instruction sees."""

    atoms: Atoms
    solver: Solver
    quiet: bool = False  # ask intervals only

    def canonical(self, poly: Poly, width: int, path: Path, *, signed: bool) -> Poly:
        """Return the number in range that is congruent to a polynomial; exact."""
        low = -(1 << (width - 1)) if signed else 0
        high = low + (1 << width) - 1
        if poly.within(low, high):
            return poly
        poly = poly.modulo(width)
        if poly.within(low, high):
            return poly
        least, most = poly.interval()
        if least is not None and most is not None:
            turns = (least - low) >> width
            if poly.within(low + (turns << width), high + (turns << width)):
                return poly - (turns << width)
        if not self.quiet and not all(atom.data for atom in poly.atoms):
            for turns in (0, 1, -1):
                moved = poly - (turns << width)
                a, b = moved.interval()
                if (a is not None and a > high) or (b is not None and b < low):
                    continue
                if self.holds(path, Le(of(low) - moved)) and self.holds(path, Le(moved - high)):
                    return moved
        return poly - self.atoms.quotient(poly - low, of(1 << width)) * (1 << width)

    def holds(self, path: Path, formula: Formula, *, quick: bool = True) -> bool:
        """Whether a formula holds wherever the path leads, as far as linear arithmetic tells."""
        found = decided(formula)
        if found in (TRUE, FALSE):
            return found == TRUE
        return not self.quiet and self.solver.implies(path, formula, quick=quick)
