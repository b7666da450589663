"""Integers without bounds as polynomials over atoms, and formulas over them.

A register of w bits that holds polynomial p holds p mod 2^w: sums and products stay exact without
asking where they wrap. What is no polynomial (quotients, choices, bits) is an atom with facts that
define it. An atom's interval always holds; its `facts` do as well, whatever path is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import TypeAlias

Monomial: TypeAlias = tuple["Atom", ...]
Bound: TypeAlias = int | None
_by_number = attrgetter("number")  # of atoms; quicker than their order


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """An atom's meaning: nothing more than its interval and facts."""


@dataclass(frozen=True, slots=True)
class Quotient:
    """floor(dividend / divisor), where the divisor is positive."""

    dividend: Poly
    divisor: Poly


@dataclass(frozen=True, slots=True)
class Remainder:
    """dividend - divisor * floor(dividend / divisor) for a divisor that is a positive number."""

    dividend: Poly
    divisor: int


@dataclass(frozen=True, slots=True)
class Choice:
    """`then` where the formula holds, else `other`."""

    formula: Formula
    then: Poly
    other: Poly


class Bitwise(StrEnum):
    """An operation on the bits of two integers."""

    AND = "and"
    OR = "or"
    XOR = "xor"

    def of(self, a: int, b: int) -> int:
        """Return what it makes of two numbers."""
        match self:
            case Bitwise.AND:
                return a & b
            case Bitwise.OR:
                return a | b
            case Bitwise.XOR:
                return a ^ b


@dataclass(frozen=True, slots=True)
class Bits:
    """`left & right`, `|` or `^` of two integers that are not negative."""

    operation: Bitwise
    left: Poly
    right: Poly


@dataclass(frozen=True, slots=True)
class PowerOfTwo:
    """The least power of two that is not below `of`."""

    of: Poly


Meaning: TypeAlias = Symbol | Quotient | Remainder | Choice | Bits | PowerOfTwo


@dataclass(slots=True, eq=False)
class Atom:
    """An integer that is looked into no further; `data` if it comes from memory.

    `products` are upper bounds of products that it is a factor of; all their factors are positive.
    """

    number: int
    name: str
    low: Bound
    high: Bound
    meaning: Meaning
    facts: tuple[Formula, ...] = ()
    data: bool = False
    products: tuple[tuple[Monomial, int], ...] = ()

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        # Sets of atoms have one order in every process, and so have questions to the solver.
        return self.number

    def __lt__(self, other: Atom) -> bool:
        return self.number < other.number


class Poly:
    """A polynomial with integer coefficients; immutable, equal by value."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}
        self._hash = hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Poly | int) -> Poly:
        found = dict(self.terms)
        for monomial, factor in of(other).terms.items():
            found[monomial] = found.get(monomial, 0) + factor
        return Poly(found)

    def __sub__(self, other: Poly | int) -> Poly:
        return self + of(other) * -1

    def __neg__(self) -> Poly:
        return self * -1

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return Poly({m: c * other for m, c in self.terms.items()})
        found: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = (
                    tuple(sorted(left + right, key=_by_number)) if left and right else left + right
                )
                found[monomial] = found.get(monomial, 0) + a * b
        return Poly(found)

    @property
    def constant(self) -> int | None:
        """The value of a polynomial without atoms, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 and () in self.terms else None

    @property
    def atoms(self) -> set[Atom]:
        """The atoms that it mentions."""
        return {atom for monomial in self.terms for atom in monomial}

    @property
    def content(self) -> int:
        """The greatest integer that divides every coefficient; 0 for the zero polynomial."""
        return math.gcd(*self.terms.values()) if self.terms else 0

    def interval(self) -> tuple[Bound, Bound]:
        """Return bounds that follow from the atoms' own; None: none."""
        low: Bound = 0
        high: Bound = 0
        for monomial, factor in self.terms.items():
            a, b = _product_interval(monomial)
            if factor < 0:
                a, b = b, a
            low = None if low is None or a is None else low + factor * a
            high = None if high is None or b is None else high + factor * b
        return low, high

    def within(self, low: int, high: int) -> bool:
        """Whether the atoms' bounds put it between two numbers, both included."""
        a, b = self.interval()
        return a is not None and b is not None and low <= a and b <= high

    def modulo(self, width: int) -> Poly:
        """Return a polynomial that is congruent modulo 2^width, its coefficients small."""
        half = 1 << (width - 1)
        if all(-half <= factor < half for factor in self.terms.values()):
            return self
        return Poly({m: (c + half) % (2 * half) - half for m, c in self.terms.items()})

    def replace(self, old: Atom, new: Poly) -> Poly:
        """Return it with a polynomial in an atom's place; not within what defines other atoms."""
        if old not in self.atoms:
            return self
        found = ZERO
        for monomial, factor in self.terms.items():
            part = Poly({tuple(a for a in monomial if a is not old): factor})
            for _ in range(monomial.count(old)):
                part = part * new
            found = found + part
        return found

    def __repr__(self) -> str:
        parts = []
        for monomial, factor in sorted(self.terms.items(), key=lambda t: (-len(t[0]), str(t[0]))):
            names = "*".join(atom.name for atom in monomial)
            sign = "-" if factor < 0 else "+"
            size = str(abs(factor)) if abs(factor) != 1 or not names else ""
            parts.append(f"{sign} {size}{'*' if size and names else ''}{names}")
        text = " ".join(parts).removeprefix("+ ")
        return (f"-{text[2:]}" if text.startswith("- ") else text) or "0"


def _product_interval(monomial: Monomial) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for atom in monomial:
        a, b = atom.low, atom.high
        if a is not None and a >= 0 and low is not None and low >= 0:
            low, high = low * a, None if high is None or b is None else high * b
            continue
        if low is None or high is None or a is None or b is None:
            low, high = None, None
            continue
        ends = [low * a, low * b, high * a, high * b]
        low, high = min(ends), max(ends)
    if len(monomial) > 1 and low is not None and low >= 0:
        for product, most in {one for atom in monomial for one in atom.products}:
            bound = _bounded(monomial, product, most)
            if bound is not None and (high is None or bound < high):
                high = bound
    return low, high


def _bounded(monomial: Monomial, product: Monomial, most: int) -> Bound:
    """Return an upper bound of a product of which a part divides one that is at most `most`."""
    outside = list(monomial)
    for atom in product:
        if atom in outside:
            outside.remove(atom)
        else:
            assert atom.low is not None
            most //= atom.low
    for atom in outside:
        if atom.high is None:
            return None
        most *= atom.high
    return most


def of(value: Poly | Atom | int) -> Poly:
    """Return a number or an atom as a polynomial."""
    match value:
        case Poly():
            return value
        case Atom():
            return Poly({(value,): 1})
        case int():
            return Poly({(): value})


ZERO = Poly({})
ONE = Poly({(): 1})


# ---- formulas


@dataclass(frozen=True, slots=True)
class Le:
    """poly <= 0."""

    poly: Poly


@dataclass(frozen=True, slots=True)
class Eq:
    """poly == 0."""

    poly: Poly


@dataclass(frozen=True, slots=True)
class Ne:
    """poly != 0."""

    poly: Poly


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value that is looked into no further."""

    name: str
    positive: bool = True


@dataclass(frozen=True, slots=True)
class All:
    """Every one of the items; TRUE has none."""

    items: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the items; FALSE has none."""

    items: tuple[Formula, ...]


Formula: TypeAlias = Le | Eq | Ne | Flag | All | AnyOf
TRUE = All(())
FALSE = AnyOf(())


def negated(formula: Formula) -> Formula:
    """Return what holds where the formula does not."""
    match formula:
        case Le(poly):
            return Le(ONE - poly)
        case Eq(poly):
            return Ne(poly)
        case Ne(poly):
            return Eq(poly)
        case Flag(name, positive):
            return Flag(name, not positive)
        case All(items):
            return AnyOf(tuple(map(negated, items)))
        case AnyOf(items):
            return All(tuple(map(negated, items)))


def decided(formula: Formula) -> Formula:
    """Return TRUE or FALSE where the atoms' bounds say so, else the formula."""
    match formula:
        case Le(poly):
            low, high = poly.interval()
            if high is not None and high <= 0:
                return TRUE
            return FALSE if low is not None and low > 0 else formula
        case Eq(poly):
            low, high = poly.interval()
            if low == high == 0:
                return TRUE
            outside = (low is not None and low > 0) or (high is not None and high < 0)
            return FALSE if outside else formula
        case Ne(poly):
            found = decided(Eq(poly))
            return formula if isinstance(found, Eq) else negated(found)
        case _:
            return formula


def conjunction(items: Iterable[Formula]) -> Formula:
    """Return the formula that all hold, without what is trivial or doubled."""
    found: dict[Formula, None] = {}
    for item in items:
        for one in item.items if isinstance(item, All) else (item,):
            one = decided(one)
            if one == FALSE or negated(one) in found:
                return FALSE
            if one != TRUE:
                found[one] = None
    return next(iter(found)) if len(found) == 1 else All(tuple(found))


def disjunction(items: Iterable[Formula]) -> Formula:
    """Return the formula that at least one holds."""
    return negated(conjunction(negated(item) for item in items))


def literals(formula: Formula) -> Iterator[Le | Eq | Ne | Flag]:
    """Yield the comparisons that a formula is made of."""
    if isinstance(formula, All | AnyOf):
        for item in formula.items:
            yield from literals(item)
    else:
        yield formula


def atoms_of(formula: Formula) -> set[Atom]:
    """Return the atoms that a formula mentions."""
    found: set[Atom] = set()
    for one in literals(formula):
        if not isinstance(one, Flag):
            found |= one.poly.atoms
    return found


def replaced(formula: Formula, old: Atom, new: Poly) -> Formula:
    """Return a formula with a polynomial in an atom's place."""
    match formula:
        case Le(poly):
            return Le(poly.replace(old, new))
        case Eq(poly):
            return Eq(poly.replace(old, new))
        case Ne(poly):
            return Ne(poly.replace(old, new))
        case Flag():
            return formula
        case All(items):
            return conjunction(replaced(item, old, new) for item in items)
        case AnyOf(items):
            return disjunction(replaced(item, old, new) for item in items)


# ---- atoms that mean something


@dataclass(slots=True)
class Atoms:
    """Makes atoms; the same meaning gives the same atom."""

    _count: int = 0
    _known: dict[Meaning, Atom] = field(default_factory=dict)
    _divided: dict[Poly, list[tuple[Poly, Poly]]] = field(default_factory=dict)
    flags: int = 0

    @property
    def next_number(self) -> int:
        """The number of the next new atom."""
        return self._count

    def symbol(
        self, name: str, low: Bound = None, high: Bound = None, *, data: bool = False
    ) -> Atom:
        """Return a new atom that means nothing but itself."""
        self._count += 1
        return Atom(self._count, name, low, high, Symbol(), data=data)

    def flag(self, name: str) -> Flag:
        """Return a new truth value."""
        self.flags += 1
        return Flag(f"{name}#{self.flags}")

    def _atom(
        self,
        meaning: Meaning,
        name: str,
        interval: tuple[Bound, Bound],
        facts: Callable[[Poly], Iterable[Formula]],
        inside: Iterable[Atom],
    ) -> Poly:
        known = self._known.get(meaning)
        if known is None:
            self._count += 1
            data = any(atom.data for atom in inside)
            known = Atom(self._count, f"{name}{self._count}", *interval, meaning, data=data)
            known.facts = tuple(facts(of(known)))
            self._known[meaning] = known
        return of(known)

    def quotient(self, dividend: Poly, divisor: Poly) -> Poly:
        """Return floor(dividend / divisor) for a divisor that is positive."""
        low, _ = divisor.interval()
        assert low is not None
        assert low > 0
        whole, rest = divided_exactly(dividend, divisor)
        number = divisor.constant
        if number == 1:
            return whole + rest
        if number is not None:
            common = math.gcd(number, *(c for m, c in rest.terms.items() if m))
            if common > 1:  # floor((g*a + b) / (g*d)) = floor((a + floor(b/g)) / d)
                shifted = {m: c // common for m, c in rest.terms.items() if m}
                shifted[()] = rest.terms.get((), 0) // common
                return whole + self.quotient(Poly(shifted), of(number // common))
            magic = self._by_constant(rest, number)
            if magic is not None:
                return whole + magic
        a, b = rest.interval()
        _, most = (rest - divisor).interval()
        if a is not None and a >= 0 and most is not None and most < 0:
            return whole
        inner = next(iter(rest.atoms), None)
        if inner is not None and rest == of(inner) and isinstance(inner.meaning, Quotient):
            # floor(floor(a / b) / c) = floor(a / (b*c))
            of_both = inner.meaning.divisor * divisor
            return whole + self.quotient(inner.meaning.dividend, of_both)
        meaning = Quotient(rest, divisor)
        div_low, div_high = divisor.interval()
        assert div_low is not None
        low_q: Bound = None
        high_q: Bound = None
        if a is not None:
            low_q = a // div_low if a < 0 else (a // div_high if div_high is not None else 0)
        if b is not None:
            high_q = b // div_low if b >= 0 else (-1 if div_high is None else b // div_high)
        known = self._divided.setdefault(rest, [])
        found = self._atom(
            meaning,
            "quotient",
            (low_q, high_q),
            lambda q: (
                Le(divisor * q - rest),
                Le(rest - divisor * q - divisor + 1),
                *_digits(q, divisor, known),
            ),
            rest.atoms | divisor.atoms,
        )
        if all(one != found for _, one in known):
            known.append((divisor, found))
        return whole + found

    def _by_constant(self, poly: Poly, number: int) -> Poly | None:
        """Return floor(poly / number), or None where nothing simpler says it.

        Compilers divide a by d as floor(a * m / 2^k); floor(floor(a/b)/c) is floor(a/(b*c)).
        Source: Granlund and Montgomery, "Division by Invariant Integers", theorem 4.2.
        """
        if len(poly.terms) != 1:
            return None
        (monomial, factor), *_ = poly.terms.items()
        if factor == 1 and len(monomial) == 1:
            inner = monomial[0].meaning
            if isinstance(inner, Quotient) and inner.divisor.constant is not None:
                return self.quotient(inner.dividend, of(inner.divisor.constant * number))
            return None
        if factor <= 1 or number & (number - 1) or not monomial:
            return None
        base = Poly({monomial: 1})
        low, high = base.interval()
        divisor = -(-number // factor)
        error = factor * divisor - number
        if low is None or high is None or low < 0 or divisor < 2 or error * high >= number:
            return None
        return self.quotient(base, of(divisor))

    def remainder(self, dividend: Poly, divisor: Poly) -> Poly:
        """Return dividend - divisor * floor(dividend / divisor), the divisor positive."""
        number = divisor.constant
        if number is None:
            return dividend - divisor * self.quotient(dividend, divisor)
        rest = Poly({m: c % number for m, c in dividend.terms.items()})
        if rest.within(0, number - 1):
            return rest
        if dividend.within(0, number - 1):
            return dividend
        common = math.gcd(number, *(c for m, c in rest.terms.items() if m))
        if common > 1:  # (g*a + b) mod (g*d) = g * ((a + floor(b/g)) mod d) + b mod g
            low = rest.terms.get((), 0)
            shifted = {m: c // common for m, c in rest.terms.items() if m}
            shifted[()] = low // common
            inner = self.remainder(Poly(shifted), of(number // common))
            return inner * common + low % common
        quotient = self.quotient(dividend, divisor)
        return self._atom(
            Remainder(dividend, number),
            "remainder",
            (0, number - 1),
            lambda r: (Eq(r - dividend + quotient * number),),
            dividend.atoms,
        )

    def choice(self, formula: Formula, then: Poly, other: Poly) -> Poly:
        """Return `then` where the formula holds, else `other`."""
        formula = decided(formula)
        if formula == TRUE or then == other:
            return then
        if formula == FALSE:
            return other
        (a, b), (c, d) = then.interval(), other.interval()
        low = None if a is None or c is None else min(a, c)
        high = None if b is None or d is None else max(b, d)
        return self._atom(
            Choice(formula, then, other),
            "choice",
            (low, high),
            lambda x: (
                disjunction((negated(formula), Eq(x - then))),
                disjunction((formula, Eq(x - other))),
            ),
            then.atoms | other.atoms | atoms_of(formula),
        )

    def minimum(self, left: Poly, right: Poly) -> Poly:
        """Return the lesser of two."""
        return self._within(self.choice(Le(left - right), left, right), left, right, most=True)

    def maximum(self, left: Poly, right: Poly) -> Poly:
        """Return the greater of two."""
        return self._within(self.choice(Le(right - left), left, right), left, right, most=False)

    @staticmethod
    def _within(found: Poly, left: Poly, right: Poly, *, most: bool) -> Poly:
        """Bound the atom that stands for the lesser (`most`) or greater of two by both of them."""
        atom = next(iter(found.atoms), None)
        if atom is None or found != of(atom) or not isinstance(atom.meaning, Choice):
            return found
        for low, high in (left.interval(), right.interval()):
            if most and high is not None:
                atom.high = high if atom.high is None else min(atom.high, high)
            if not most and low is not None:
                atom.low = low if atom.low is None else max(atom.low, low)
        return found

    def power_of_two(self, value: Poly) -> Poly:
        """Return the least power of two that is not below a positive value."""
        number = value.constant
        if number is not None:
            return of(1 << max(number - 1, 0).bit_length())
        _, high = value.interval()
        top = None if high is None else 1 << max(high - 1, 0).bit_length()
        return self._atom(
            PowerOfTwo(value),
            "pow2_",
            (1, top),
            lambda p: (Le(value - p), disjunction((Le(p - value * 2 + 2), Eq(p - 1)))),
            value.atoms,
        )

    def bits(self, operation: Bitwise, left: Poly, right: Poly) -> Poly:
        """Return `and`, `or` or `xor` of two integers that are not negative."""
        if left.constant is not None:
            left, right = right, left
        a, b = left.constant, right.constant
        if a is not None and b is not None:
            return of(operation.of(a, b))
        if b == 0:
            return ZERO if operation is Bitwise.AND else left
        if operation is Bitwise.AND and b is not None:
            return self._masked(left, b)
        for one, other in ((left, right), (right, left)):
            found = one
            for atom in one.atoms:
                if isinstance(atom.meaning, Remainder):
                    whole, divisor = atom.meaning.dividend, atom.meaning.divisor
                    found = found.replace(atom, whole - self.quotient(whole, of(divisor)) * divisor)
            content = found.content
            step = content & -content
            if step > 1 and other.within(0, step - 1):  # no bit in common
                return ZERO if operation is Bitwise.AND else one + other
        places = {c & -c for one in (left, right) for c in one.terms.values()}
        for step in sorted(places - {1}, reverse=True):
            # Bits from a place on, and bits below it, are operated on by themselves.
            (low, high), (other_low, other_high) = (_split(one, step) for one in (left, right))
            if high == other_high == ZERO or not (
                low.within(0, step - 1) and other_low.within(0, step - 1)
            ):
                continue
            below = self.bits(operation, low, other_low)
            return below + self.bits(operation, high, other_high) * step
        return self._opaque_bits(operation, left, right)

    def _opaque_bits(self, operation: Bitwise, left: Poly, right: Poly) -> Poly:
        tops = [one.interval()[1] for one in (left, right)]
        known = [top for top in tops if top is not None]
        most: Bound = None
        if operation is Bitwise.AND and known:
            most = min(known)
        elif len(known) == 2:
            most = (1 << max(known).bit_length()) - 1

        def facts(x: Poly) -> Iterator[Formula]:
            match operation:
                case Bitwise.AND:
                    yield from (Le(x - left), Le(x - right))
                case Bitwise.OR:
                    yield from (Le(left - x), Le(right - x), Le(x - left - right))
                case _:
                    yield Le(x - left - right)

        return self._atom(
            Bits(operation, left, right),
            operation,
            (0, most),
            facts,
            left.atoms | right.atoms,
        )

    def _masked(self, value: Poly, mask: int) -> Poly:
        """Return value & mask: one difference of remainders a run of ones."""
        found, place = ZERO, 0
        runs = 0
        while mask >> place:
            if not mask >> place & 1:
                place += 1
                continue
            end = place
            while mask >> end & 1:
                end += 1
            found += self.remainder(value, of(1 << end)) - self.remainder(value, of(1 << place))
            place = end
            runs += 1
            if runs > 3:
                return self._opaque_bits(Bitwise.AND, value, of(mask))
        return found


def _digits(quotient: Poly, divisor: Poly, known: Iterable[tuple[Poly, Poly]]) -> Iterator[Formula]:
    """Yield how a quotient is to others of the same dividend, where one divisor divides the other.

    With b = c*a, floor(x/a) - c*floor(x/b) is a digit: at least 0, and less than c.
    """
    for other_divisor, other in known:
        for a, b, of_a, of_b in (
            (divisor, other_divisor, quotient, other),
            (other_divisor, divisor, other, quotient),
        ):
            times, rest = divided_exactly(b, a)
            low, _ = times.interval()
            if rest == ZERO and low is not None and low > 0:
                yield Le(times * of_b - of_a)
                yield Le(of_a - times * of_b - times + 1)
                break


def _split(poly: Poly, step: int) -> tuple[Poly, Poly]:
    """Return (low, high) with poly = low + step * high: whole terms, and the constant by digits."""
    low: dict[Monomial, int] = {}
    high: dict[Monomial, int] = {}
    for monomial, factor in poly.terms.items():
        if not monomial:
            high[monomial], low[monomial] = divmod(factor, step)
        elif factor % step == 0:
            high[monomial] = factor // step
        else:
            low[monomial] = factor
    return Poly(low), Poly(high)


def divided_exactly(poly: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Return (whole, rest) with poly = divisor * whole + rest: what divides term by term."""
    if len(divisor.terms) != 1:
        return _divided_by_sum(poly, divisor)
    ((below, number),) = divisor.terms.items()
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in poly.terms.items():
        left = list(monomial)
        try:
            for atom in below:
                left.remove(atom)
        except ValueError:
            rest[monomial] = factor
            continue
        quotient, remains = divmod(factor, number)
        if quotient:
            whole[tuple(left)] = quotient
        if remains:
            rest[monomial] = remains
    return Poly(whole), Poly(rest)


def _divided_by_sum(poly: Poly, divisor: Poly) -> tuple[Poly, Poly]:
    """Divide by a sum: whole multiples, found along the divisor's leading monomial."""
    lead = max(divisor.terms, key=lambda m: (len(m), m))
    whole, rest = ZERO, poly
    for _ in range(4):
        step = next(
            (
                Poly({_without(m, lead): c // divisor.terms[lead]})
                for m, c in rest.terms.items()
                if contains(m, lead) and c % divisor.terms[lead] == 0
            ),
            None,
        )
        if step is None or len((rest - step * divisor).terms) >= len(rest.terms):
            return whole, rest
        whole, rest = whole + step, rest - step * divisor
    return whole, rest


def contains(monomial: Monomial, part: Monomial) -> bool:
    """Whether a product has all factors of another."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return False
        left.remove(atom)
    return True


def _without(monomial: Monomial, part: Monomial) -> Monomial:
    left = list(monomial)
    for atom in part:
        left.remove(atom)
    return tuple(left)


def value_of(poly: Poly, values: Mapping[Atom, int], flags: Mapping[str, bool]) -> int:
    """Return a polynomial's value; KeyError where a symbol has none."""
    total = 0
    for monomial, factor in poly.terms.items():
        for atom in monomial:
            factor *= atom_value(atom, values, flags)
        total += factor
    return total


def atom_value(atom: Atom, values: Mapping[Atom, int], flags: Mapping[str, bool]) -> int:
    """Return an atom's value by what it means."""
    match atom.meaning:
        case Symbol():
            return values[atom]
        case Quotient(dividend, divisor):
            return value_of(dividend, values, flags) // value_of(divisor, values, flags)
        case Remainder(dividend, number):
            return value_of(dividend, values, flags) % number
        case Choice(formula, then, other):
            return value_of(then if holds(formula, values, flags) else other, values, flags)
        case Bits(operation, left, right):
            a, b = value_of(left, values, flags), value_of(right, values, flags)
            return operation.of(a, b)
        case PowerOfTwo(value):
            return 1 << max(value_of(value, values, flags) - 1, 0).bit_length()


def holds(formula: Formula, values: Mapping[Atom, int], flags: Mapping[str, bool]) -> bool:
    """Whether a formula holds where symbols have these values."""
    match formula:
        case Le(poly):
            return value_of(poly, values, flags) <= 0
        case Eq(poly):
            return value_of(poly, values, flags) == 0
        case Ne(poly):
            return value_of(poly, values, flags) != 0
        case Flag(name, positive):
            return flags[name] is positive
        case All(items):
            return all(holds(item, values, flags) for item in items)
        case AnyOf(items):
            return any(holds(item, values, flags) for item in items)
