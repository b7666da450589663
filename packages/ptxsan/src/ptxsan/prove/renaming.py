"""The terms of one symbolic thread, said of another: what both share stays, all else is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxsan.prove.machine import Allocation
from ptxsan.prove.terms import (
    ZERO,
    All,
    AnyOf,
    Atom,
    Atoms,
    Bits,
    Choice,
    Eq,
    Flag,
    Formula,
    Le,
    Ne,
    Poly,
    PowerOfTwo,
    Quotient,
    Remainder,
    Symbol,
    conjunction,
    disjunction,
    of,
)


@dataclass(slots=True, kw_only=True)
class Renaming:
    """Says a thread's polynomials and formulas of another thread.

    `shared` are the symbols that mean the same in both threads; `replaced` symbols get these
    values. A symbol that was loaded from `loads` stays the same where the place does: give only
    loads from memory that nobody writes. With `identity` every symbol stays that is not replaced.
    """

    atoms: Atoms
    shared: frozenset[Atom]
    replaced: Mapping[Atom, Poly] = field(default_factory=dict)
    loads: Mapping[Atom, tuple[Allocation, Poly]] = field(default_factory=dict)
    identity: bool = False
    _known: dict[Atom, Poly] = field(default_factory=dict)
    _formulas: dict[Formula, Formula] = field(default_factory=dict)

    def poly(self, poly: Poly) -> Poly:
        """Return a polynomial of the other thread."""
        found = ZERO
        for monomial, factor in poly.terms.items():
            part = of(factor)
            for atom in monomial:
                part = part * self.atom(atom)
            found = found + part
        return found

    def formula(self, formula: Formula) -> Formula:
        """Return a formula of the other thread."""
        known = self._formulas.get(formula)
        if known is None:
            known = self._formulas[formula] = self._renamed(formula)
        return known

    def _renamed(self, formula: Formula) -> Formula:
        match formula:
            case Le(poly):
                return Le(self.poly(poly))
            case Eq(poly):
                return Eq(self.poly(poly))
            case Ne(poly):
                return Ne(self.poly(poly))
            case Flag(name, positive):
                return formula if self.identity else Flag(f"{name} of the other", positive)
            case All(items):
                return conjunction(map(self.formula, items))
            case AnyOf(items):
                return disjunction(map(self.formula, items))

    def atom(self, atom: Atom) -> Poly:
        """Return what stands for an atom in the other thread."""
        known = self._known.get(atom)
        if known is not None:
            return known
        match atom.meaning:
            case Symbol():
                if atom in self.replaced:
                    symbol = self.replaced[atom]
                elif atom in self.shared or self.identity:
                    symbol = of(atom)
                else:
                    place = self.loads.get(atom)
                    if place is not None and not self.replaced and self.poly(place[1]) == place[1]:
                        symbol = of(atom)
                    else:
                        new = self.atoms.symbol(
                            f"{atom.name}'", atom.low, atom.high, data=atom.data
                        )
                        symbol = self._known[atom] = of(new)  # its facts speak of itself
                        new.facts = tuple(map(self.formula, atom.facts))
                self._known[atom] = symbol
                return symbol
            case Quotient(dividend, divisor):
                above, below = self.poly(dividend), self.poly(divisor)
                low, _ = below.interval()
                # Without a positive divisor there is no atom for it: then it is anything.
                fits = low is not None and low > 0
                found = (
                    self.atoms.quotient(above, below)
                    if fits
                    else of(self.atoms.symbol(f"{atom.name}'", data=atom.data))
                )
            case Remainder(dividend, number):
                found = self.atoms.remainder(self.poly(dividend), of(number))
            case Choice(formula, then, other):
                found = self.atoms.choice(self.formula(formula), self.poly(then), self.poly(other))
            case Bits(operation, left, right):
                found = self.atoms.bits(operation, self.poly(left), self.poly(right))
            case PowerOfTwo(value):
                found = self.atoms.power_of_two(self.poly(value))
        self._known[atom] = found
        return found
