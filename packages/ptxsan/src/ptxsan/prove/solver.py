"""Whether facts imply a goal: by intervals, by linear arithmetic with products, by z3 on its own.

Nonlinear terms are unknowns of a linear problem to which products of what is known are added:
h >= 0 and x >= 0 give h*x >= 0. That settles nearly all that indices of tensors ask for. What is
left goes to z3 as it is. "Proved" needs an unsatisfiable problem; everything dropped, limited or
timed out makes less provable, never more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any

from ptxsan.prove.terms import (
    FALSE,
    TRUE,
    All,
    AnyOf,
    Atom,
    Eq,
    Flag,
    Formula,
    Le,
    Monomial,
    Ne,
    Poly,
    atoms_of,
    decided,
    negated,
    of,
)

_LEMMAS, _ROUNDS, _NEAR = 400, 2, 4
_SMALLER = (6_000, 80_000, 1_500_000)  # bounds of sizes for a counterexample that is to be run
_NARROW = 1 << 20  # bounds that are worth a product
# z3's own count of its work (`rlimit`): answers do not depend on the machine or its load. Of 320
# recorded linear questions that it shows, 318 take less than 125,000 steps, one 193,000.
_QUICK, _LINEAR, _PATIENT, _FULL = 200_000, 1_000_000, 2_000_000, 4_000_000
# The older simplex gives up on what it cannot show in a tenth of the time of the newer one (60
# recorded questions: 1.7 s, 23 s), and shows as much.
_SIMPLEX = 2
_by_number = attrgetter("number")


class Discharge(StrEnum):
    """What settled a goal."""

    INTERVALS = "intervals"
    LINEAR = "linear arithmetic with products"
    NONLINEAR = "nonlinear arithmetic"
    THREADS = "threads one by one"  # not by the solver: see `threads`


@dataclass(frozen=True, slots=True)
class Shown:
    """The facts imply the goal."""

    by: Discharge


@dataclass(frozen=True, slots=True)
class Countered:
    """Values of symbols for which the facts hold and the goal does not."""

    values: Mapping[Atom, int]


@dataclass(frozen=True, slots=True)
class Open:
    """Neither was found."""

    reason: str


Answer = Shown | Countered | Open


def z3_module() -> Any:
    """Return the module z3. Raises MachineError where it is not installed."""
    from ptxsan.errors import MachineError

    try:
        import z3
    except ImportError:
        raise MachineError(
            "proofs need the package z3-solver, which is not installed; pip install 'ptxsan[prove]'"
        ) from None
    return z3


@dataclass(slots=True)
class Solver:
    """Answers questions; the same one is answered once. `until` ends all work (perf_counter)."""

    until: float = float("inf")
    spent_s: dict[str, float] = field(default_factory=lambda: {"linear": 0.0, "nonlinear": 0.0})
    asked: Counter[str] = field(default_factory=Counter)
    _shown: dict[Formula, list[frozenset[Formula]]] = field(default_factory=dict)
    _not_shown: dict[Formula, list[tuple[frozenset[Formula], int]]] = field(default_factory=dict)

    def implies(
        self, facts: Sequence[Formula], goal: Formula, *, quick: bool = False, patient: bool = False
    ) -> bool:
        """Whether facts imply a goal, as far as intervals and linear arithmetic tell.

        With `quick` less work is done for what is only good to know, with `patient` more for what
        many goals rest on.
        """
        goal = decided(goal)
        if goal == TRUE or any(decided(fact) == FALSE for fact in facts):
            return True
        if isinstance(goal, All):
            return all(
                self.implies(facts, item, quick=quick, patient=patient) for item in goal.items
            )
        if goal in facts:
            return True
        near = relevant(facts, atoms_of(goal))
        work = _QUICK if quick else _PATIENT if patient else _LINEAR
        held = frozenset(near)
        if any(fewer <= held for fewer in self._shown.get(goal, ())):
            return True
        # What did not follow from more facts, or with more work, does not follow from less.
        if any(held <= more and work <= done for more, done in self._not_shown.get(goal, ())):
            return False
        if self._linear(near, goal, work):
            self._shown.setdefault(goal, []).append(held)
            return True
        self._not_shown.setdefault(goal, []).append((held, work))
        return False

    def answer(self, facts: Sequence[Formula], goal: Formula) -> Answer:
        """Return whether facts imply a goal, with values where they do not."""
        if decided(goal) == TRUE or any(decided(fact) == FALSE for fact in facts):
            return Shown(Discharge.INTERVALS)
        if self.implies(facts, goal):
            return Shown(Discharge.LINEAR)
        if isinstance(goal, All):
            last: Answer = Shown(Discharge.LINEAR)
            for item in goal.items:
                found = self.answer(facts, item)
                if not isinstance(found, Shown):
                    return found
                if found.by is Discharge.NONLINEAR:
                    last = found
            return last
        # Ask for values, in small sizes first; then for the whole without limits.
        started = time.perf_counter()
        self.asked["nonlinear"] += 1
        against = negated(goal)
        known = [*facts, *defining((*facts, against)), against]
        try:
            for most in (40, 600, None):
                if time.perf_counter() > self.until:
                    return Open("the time for this kernel is over")
                script = _Script(Numbers.INTEGER, most=most)
                result = script.check(known, _FULL, self._left_ms())
                if result == "sat":
                    return Countered(self._smaller(known, most) or script.values())
                if result == "unsat" and most is None:
                    return Shown(Discharge.NONLINEAR)
            return Open(f"z3 did not settle it in {_FULL:,} steps")
        finally:
            self.spent_s["nonlinear"] += time.perf_counter() - started

    def _linear(self, facts: Sequence[Formula], goal: Formula, work: int) -> bool:
        """Whether facts imply the goal, products being unknowns."""
        if time.perf_counter() > self.until:
            return False
        started = time.perf_counter()
        self.asked["linear"] += 1
        against = negated(goal)
        known = [*facts, *defining((*facts, against)), against]
        known += products(known)
        # What no real numbers satisfy is found in a hundredth of the time.
        found = any(
            _Script(numbers).check(known, work, self._left_ms()) == "unsat"
            for numbers in (Numbers.REAL, Numbers.LINEAR)
        )
        self.spent_s["linear"] += time.perf_counter() - started
        return found

    def _left_ms(self) -> int:
        left = self.until - time.perf_counter()
        return 1 << 20 if left == float("inf") else max(1, int(1000 * left))

    def _smaller(self, known: Sequence[Formula], most: int | None) -> dict[Atom, int] | None:
        """Return values that are easier to run than those of any size, if some are found soon."""
        for lower in () if most is not None else _SMALLER:
            script = _Script(Numbers.INTEGER, most=lower)
            if script.check(known, _LINEAR, self._left_ms()) == "sat":
                return script.values()
        return None


def relevant(facts: Iterable[Formula], atoms: set[Atom]) -> list[Formula]:
    """Return the facts that are tied to atoms, over few steps. Leaving out facts is sound."""
    held = [(fact, closure(atoms_of(fact))) for fact in facts]
    wanted = closure(atoms)
    chosen: dict[Formula, None] = {}
    for _ in range(_NEAR):
        fresh = [(f, a) for f, a in held if f not in chosen and (not a or a & wanted)]
        if not fresh:
            break
        for fact, inside in fresh:
            chosen[fact] = None
            wanted |= inside
    return list(chosen)


def closure(atoms: set[Atom]) -> set[Atom]:
    """Return atoms with those that their definitions mention, over any number of steps."""
    found: set[Atom] = set()
    waiting = list(atoms)
    while waiting:
        atom = waiting.pop()
        if atom in found:
            continue
        found.add(atom)
        for fact in atom.facts:
            waiting += atoms_of(fact) - found
    return found


def defining(formulas: Iterable[Formula]) -> list[Formula]:
    """Return the facts of every atom that formulas mention, directly or through those facts."""
    atoms = closure({atom for formula in formulas for atom in atoms_of(formula)})
    return [fact for atom in sorted(atoms) for fact in atom.facts]


def products(known: Sequence[Formula]) -> list[Formula]:
    """Return products of what is known with what is not negative, as far as terms occur."""
    wanted = {m for one in known for poly in _polys(one) for m in poly.terms if len(m) > 1}
    if not wanted:
        return []
    singles = {atom for one in known for atom in atoms_of(one)}
    facts = list(dict.fromkeys((*_signed(known), *_bounds(singles, wanted))))
    found: dict[Formula, None] = {}
    used: set[tuple[Poly, Monomial]] = set()
    for _ in range(_ROUNDS):
        made: list[tuple[Formula, frozenset[Monomial]]] = []
        for poly, is_zero in facts:
            for factor in _factors(poly, wanted, signed=is_zero):
                if (poly, factor) not in used:
                    used.add((poly, factor))
                    formula, monomials = _times(poly, factor, is_zero=is_zero)
                    made.append((formula, monomials - wanted))
        # Those first that speak of what is there already.
        made.sort(key=lambda one: len(one[1]))
        for formula, fresh in made[: _LEMMAS - len(found)]:
            found[formula] = None
            wanted |= fresh
        if len(found) >= _LEMMAS or not any(fresh for _, fresh in made):
            break
    return list(found)


@lru_cache(1 << 15)
def _times(poly: Poly, factor: Monomial, *, is_zero: bool) -> tuple[Formula, frozenset[Monomial]]:
    """Return that a product is zero or not negative, and the products that it speaks of."""
    sign = 1 if is_zero else -1
    terms = {
        tuple(sorted(monomial + factor, key=_by_number)): sign * number
        for monomial, number in poly.terms.items()
    }
    product = Poly(terms)
    return (
        Eq(product) if is_zero else Le(product),
        frozenset(monomial for monomial in terms if len(monomial) > 1),
    )


def _signed(known: Sequence[Formula]) -> Iterator[tuple[Poly, bool]]:
    """Yield polynomials that are known not to be negative, or (True) to be zero."""
    for formula in known:
        match formula:
            case Le(poly):
                yield -poly, False
            case Eq(poly):
                yield poly, True


def _bounds(singles: set[Atom], wanted: set[Monomial]) -> Iterator[tuple[Poly, bool]]:
    """Yield what the bounds of atoms in wanted terms say."""
    inside = {atom for monomial in wanted for atom in monomial}
    for atom in sorted(singles & inside):
        if atom.low is not None:
            yield of(atom) - atom.low, False
        if atom.high is not None and atom.high < _NARROW:
            yield of(atom.high) - of(atom), False


def _factors(poly: Poly, wanted: set[Monomial], *, signed: bool) -> Iterator[Monomial]:
    """Yield what a polynomial may be multiplied by so that a wanted term appears."""
    seen: set[Monomial] = set()
    for inner in poly.terms:
        if not inner:
            continue
        first = inner[0]
        for monomial in wanted:
            if first not in monomial:
                continue
            rest = list(monomial)
            for atom in inner:
                if atom not in rest:
                    break
                rest.remove(atom)
            else:
                factor = tuple(rest)
                if not factor or factor in seen:
                    continue
                seen.add(factor)
                if signed or all(atom.low is not None and atom.low >= 0 for atom in factor):
                    yield factor


def _polys(formula: Formula) -> Iterator[Poly]:
    match formula:
        case Le(poly) | Eq(poly) | Ne(poly):
            yield poly
        case All(items) | AnyOf(items):
            for item in items:
                yield from _polys(item)
        case Flag():
            return


class Numbers(Enum):
    """What unknowns of a question are: with REAL and LINEAR products are unknowns as well."""

    REAL = "QF_LRA"
    LINEAR = "QF_LIA"
    INTEGER = "QF_NIA"


class _Script:
    """One question to z3: unknowns for atoms and, in linear arithmetic, for products.

    It is written as SMT-LIB text, which z3 reads in a tenth of the time that its Python objects
    take to be made. `most` limits symbols that do not come from memory: small sizes are easier
    to run.
    """

    def __init__(self, numbers: Numbers, *, most: int | None = None) -> None:
        self._numbers, self._most = numbers, most
        self._terms: dict[Monomial, str] = {}
        self._flags: dict[str, str] = {}
        self._model: Any = None

    def check(self, formulas: Sequence[Formula], work: int, left_ms: int) -> str:
        """Return what z3 says within so much work; the time is for what is over anyway."""
        z3 = z3_module()
        solver = z3.SolverFor(self._numbers.value)
        if self._numbers is Numbers.LINEAR:
            solver.set("arith.solver", _SIMPLEX)
        solver.set("rlimit", work)
        solver.set("timeout", left_ms)
        asserted = [f"(assert {self._formula(formula)})" for formula in formulas]
        sort = "Real" if self._numbers is Numbers.REAL else "Int"
        declared = [f"(declare-const {name} {sort})" for name in self._terms.values()]
        declared += [f"(declare-const {name} Bool)" for name in self._flags.values()]
        bounds = [f"(assert {one})" for one in self._bounds()]
        solver.from_string("\n".join((*declared, *asserted, *bounds)))
        result = str(solver.check())
        if result == "sat":
            self._model = solver.model()
        return result

    def values(self) -> dict[Atom, int]:
        """Return the values of single atoms in the model."""
        z3 = z3_module()
        return {
            monomial[0]: self._model.eval(z3.Int(name), model_completion=True).as_long()
            for monomial, name in self._terms.items()
            if len(monomial) == 1
        }

    def _bounds(self) -> Iterator[str]:
        """Yield the bounds of all unknowns."""
        for monomial, name in self._terms.items():
            low, high = Poly({monomial: 1}).interval()
            if self._most is not None and len(monomial) == 1 and not monomial[0].data:
                most = max(self._most, low or 0)
                high = most if high is None else min(high, most)
            if low is not None:
                yield f"(>= {name} {self._number(low)})"
            if high is not None:
                yield f"(<= {name} {self._number(high)})"

    def _formula(self, formula: Formula) -> str:
        match formula:
            case Le(poly):
                varying = {monomial: factor for monomial, factor in poly.terms.items() if monomial}
                step = Poly(varying).content
                if step < 2:
                    tightened = poly
                else:
                    rest = {monomial: factor // step for monomial, factor in varying.items()}
                    tightened = Poly({**rest, (): -(-poly.terms.get((), 0) // step)})
                return f"(<= {self._poly(tightened)} {self._number(0)})"
            case Eq(poly):
                return f"(= {self._poly(poly)} {self._number(0)})"
            case Ne(poly):
                return f"(not (= {self._poly(poly)} {self._number(0)}))"
            case Flag(name, positive):
                flag = self._flags.setdefault(name, f"b{len(self._flags)}")
                return flag if positive else f"(not {flag})"
            case All(items):
                return f"(and {' '.join(map(self._formula, items))})" if items else "true"
            case AnyOf(items):
                return f"(or {' '.join(map(self._formula, items))})" if items else "false"

    def _poly(self, poly: Poly) -> str:
        parts = []
        for monomial, factor in poly.terms.items():
            if not monomial:
                parts.append(self._number(factor))
            elif factor == 1:
                parts.append(self._term(monomial))
            else:
                parts.append(f"(* {self._number(factor)} {self._term(monomial)})")
        match parts:
            case []:
                return self._number(0)
            case [part]:
                return part
            case _:
                return f"(+ {' '.join(parts)})"

    def _number(self, value: int) -> str:
        plain = f"{abs(value)}.0" if self._numbers is Numbers.REAL else str(abs(value))
        return f"(- {plain})" if value < 0 else plain

    def _term(self, monomial: Monomial) -> str:
        if len(monomial) > 1 and self._numbers is Numbers.INTEGER:
            return f"(* {' '.join(self._term((atom,)) for atom in monomial)})"
        return self._terms.setdefault(monomial, f"x{len(self._terms)}")
