"""The launch law: what is launched, as functions of the problem's sizes, fitted and confirmed.

Extents, shared memory, scalar arguments, lengths of buffers and places of pointers are fitted to
two thirds of the launches that were observed and confirmed on the rest. A law that one
confirming launch contradicts is none. Observed, never derived from host code: a proof that
builds on a law says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

Sizes: TypeAlias = Mapping[str, int]
_STEPS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DEGREE = 5
# Triton compiles other code for integer arguments that are multiples of 16
# (triton.runtime.jit, "specialization").
_SPECIALIZED = 16


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int

    def __str__(self) -> str:
        return f"{self.value:,}" if abs(self.value) < 10_000 else str(self.value)


@dataclass(frozen=True, slots=True)
class Axis:
    """The size of an axis."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of multiples of products: (factor, product); a constant has an empty product."""

    parts: tuple[tuple[int, tuple[Expression, ...]], ...]

    def __str__(self) -> str:
        shown = []
        for factor, product in self.parts:
            names = "*".join(f"({one})" if isinstance(one, Sum) else str(one) for one in product)
            text = names if factor == 1 and names else f"{factor}*{names}" if names else str(factor)
            shown.append(text)
        return " + ".join(shown).replace("+ -", "- ")


@dataclass(frozen=True, slots=True)
class Floor:
    """floor((of + add) / step)."""

    of: Expression
    add: int
    step: int

    def __str__(self) -> str:
        if self.add == self.step - 1:
            return f"ceil({self.of} / {self.step})"
        shift = f"{self.add:+}" if self.add else ""
        inner = f"({self.of} {shift[0]} {shift[1:]})" if shift else str(self.of)
        return f"floor({inner} / {self.step})"


class Bound(Enum):
    """Which of two numbers counts."""

    LESSER = "min"
    GREATER = "max"


@dataclass(frozen=True, slots=True)
class Limited:
    """The lesser or greater of an expression and a constant."""

    bound: Bound
    of: Expression
    limit: int

    def __str__(self) -> str:
        return f"{self.bound.value}({self.of}, {self.limit})"


@dataclass(frozen=True, slots=True)
class Power:
    """The least power of two that is not below an expression."""

    of: Expression

    def __str__(self) -> str:
        return f"next_power_of_2({self.of})"


Expression: TypeAlias = Number | Axis | Sum | Floor | Limited | Power


def evaluated(expression: Expression, sizes: Sizes) -> int:
    """Return the value of an expression at sizes."""
    match expression:
        case Number(value):
            return value
        case Axis(name):
            return sizes[name]
        case Sum(parts):
            total = 0
            for factor, product in parts:
                for one in product:
                    factor *= evaluated(one, sizes)
                total += factor
            return total
        case Floor(of, add, step):
            return (evaluated(of, sizes) + add) // step
        case Limited(Bound.LESSER, of, limit):
            return min(evaluated(of, sizes), limit)
        case Limited(_, of, limit):
            return max(evaluated(of, sizes), limit)
        case Power(of):
            return 1 << max(evaluated(of, sizes) - 1, 0).bit_length()


# ---- what was observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One launch: `module` is its PTX text, `regions` the memory that it saw, (base, bytes).

    `names` are those of the regions, where they are known; `unwritten` says of each whether there
    are bytes in it that neither the host nor an operation of torch wrote before.
    """

    module: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[bytes, ...]
    regions: tuple[tuple[int, int], ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    names: tuple[str, ...] = ()
    unwritten: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The launches of one call at these sizes of all axes."""

    sizes: Sizes
    launches: tuple[Launched, ...]


# ---- what follows


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer argument: its bits are those of the law's value."""

    law: Expression


@dataclass(frozen=True, slots=True)
class Place:
    """A pointer: bytes into the region with this number, which lies at an aligned address."""

    region: int
    offset: Expression


@dataclass(frozen=True, slots=True)
class Lawless:
    """An argument of which no law was confirmed."""

    why: str


Word: TypeAlias = Scalar | Place | Lawless


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """What integers of `nbytes` bytes a region holds: within [low, high].

    `free`: any of these may stand anywhere, whatever the others are. `rising`: the first is `low`,
    the last is `high`, and none is less than the one before (offsets of sequences).
    """

    low: Expression
    high: Expression
    nbytes: int
    free: bool = False
    rising: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLaw:
    """The law of one launch of a class.

    `words` maps (argument, byte offset, bytes) to what lies there. `regions` are the lengths of
    the memory that pointers reach, in bytes; None where there is no law; `names` their names,
    empty where they differ, `called` all names that each had. `grid` and `block` are extents along
    x, y and z. `unwritten` are the numbers of regions of which nobody but launches may have written
    some byte before, each with the earlier launches that were given them: (launch, its region).
    """

    module: str
    kernel: str
    grid: tuple[Expression | None, ...]
    block: tuple[Expression | None, ...]
    shared_bytes: Expression | None
    words: Mapping[tuple[int, int, int], Word]
    regions: tuple[Expression | None, ...]
    parameter_bytes: tuple[int, ...]
    names: tuple[str, ...] = ()
    called: tuple[frozenset[str], ...] = ()
    clustered: bool = False
    unwritten: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def name_of(self, region: int) -> str:
        """Return how messages call a region."""
        name = self.names[region] if region < len(self.names) else ""
        return name or f"argument's memory {region}"


@dataclass(frozen=True, slots=True)
class Divides:
    """A number divides an expression, or (`never`) does not: Triton compiles other code then."""

    number: int
    of: Expression
    never: bool = False

    def holds(self, sizes: Sizes) -> bool:
        """Whether it is so at sizes."""
        return (evaluated(self.of, sizes) % self.number != 0) is self.never

    def __str__(self) -> str:
        return f"{self.of} {'not ' if self.never else ''}a multiple of {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The sizes that a class of launches was observed at.

    `multiples` and `bounds` (low, high; None: no bound of the class's own) are by axis,
    `conditions` by scalar argument.
    """

    multiples: Mapping[str, int]
    bounds: Mapping[str, tuple[int | None, int | None]]
    conditions: tuple[Divides, ...] = ()

    def holds(self, sizes: Sizes) -> bool:
        """Whether sizes are of the class."""
        return (
            all(sizes[name] % one == 0 for name, one in self.multiples.items())
            and all(
                (low is None or low <= sizes[name]) and (high is None or sizes[name] <= high)
                for name, (low, high) in self.bounds.items()
            )
            and all(one.holds(sizes) for one in self.conditions)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLaw:
    """The law of one class of calls: those that launch the same kernels of the same PTX.

    `fitted` and `confirmed` count the calls. `witness` is one of them.
    """

    launches: tuple[LaunchLaw, ...]
    scope: Scope
    fitted: int
    confirmed: int
    witness: Observation
    seen: tuple[Sizes, ...] = field(default=())


def laws(observations: Sequence[Observation], parts: Sequence[Expression] = ()) -> list[CallLaw]:
    """Return the law of every class of calls that launch the same kernels, largest class first.

    `parts` are what laws may be made of beside the axes: extents of tensors, say.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Observation]] = {}
    for one in observations:
        key = tuple((launch.module, launch.kernel) for launch in one.launches)
        groups.setdefault(key, []).append(one)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [_law_of_class(one, observations, parts) for one in ordered if one[0].launches]


def _law_of_class(
    inside: list[Observation], every: Sequence[Observation], parts: Sequence[Expression]
) -> CallLaw:
    held_out = [one for number, one in enumerate(inside) if number % 3 == 2]
    fitting = [one for number, one in enumerate(inside) if number % 3 != 2]
    rows = [*fitting, *held_out]
    fitter = Fitter([one.sizes for one in rows], len(fitting))
    for part in parts:
        fitter.offer(part)
    places: list[tuple[tuple[int, ...], ...]] = []  # bases of each launch's regions, one a row
    launches: tuple[LaunchLaw, ...] = ()
    for place in range(len(inside[0].launches)):
        of_one = [one.launches[place] for one in rows]
        law, reached = _law_of_launch(of_one, fitter)
        found = {}
        for number, bases in enumerate(reached):
            fresh = any(
                unwritten
                for row, here in zip(of_one, bases, strict=True)
                for (base, _), unwritten in zip(row.regions, row.unwritten, strict=False)
                if base == here
            )
            if fresh:
                found[number] = tuple(
                    (launch, region)
                    for launch, regions in enumerate(places)
                    for region, others in enumerate(regions)
                    if others == bases
                )
        launches = (*launches, replace(law, unwritten=found))
        places.append(reached)
    outside = [one for one in every if not any(one is other for other in inside)]
    multiples: dict[str, int] = {}
    bounds: dict[str, tuple[int | None, int | None]] = {}
    if not outside:
        scope = Scope(multiples={}, bounds={})
    else:
        conditions = tuple(dict.fromkeys(_divisions(inside, outside, launches)))
        if conditions and not any(all(c.holds(one.sizes) for c in conditions) for one in outside):
            scope = Scope(multiples={}, bounds={}, conditions=conditions)
        else:
            for name in inside[0].sizes:
                sizes = [one.sizes[name] for one in inside]
                others = [one.sizes[name] for one in outside]
                common = math.gcd(*sizes)
                if common > 1 and any(size % common for size in others):
                    multiples[name] = common
                low, high = min(sizes), max(sizes)
                bounds[name] = (
                    low if any(size < low for size in others) else None,
                    high if any(size > high for size in others) else None,
                )
            scope = Scope(multiples=multiples, bounds=bounds, conditions=conditions)
    return CallLaw(
        launches=launches,
        scope=scope,
        fitted=len(fitting),
        confirmed=len(held_out),
        witness=min(inside, key=lambda one: sum(one.sizes.values())),
        seen=tuple(one.sizes for one in inside),
    )


def _divisions(
    inside: list[Observation], outside: list[Observation], launches: Sequence[LaunchLaw]
) -> Iterator[Divides]:
    """Yield which scalar arguments are multiples of 16 in all calls of a class, or in none."""
    for launch in launches:
        for (_, _, width), word in launch.words.items():
            if width < 4 or not isinstance(word, Scalar) or isinstance(word.law, Number):
                continue
            for never in (False, True):
                found = Divides(_SPECIALIZED, word.law, never)
                if all(found.holds(one.sizes) for one in inside) and not all(
                    found.holds(one.sizes) for one in outside
                ):
                    yield found


def _law_of_launch(
    rows: list[Launched], fitter: Fitter
) -> tuple[LaunchLaw, tuple[tuple[int, ...], ...]]:
    """Return a launch's law, and the addresses of its regions: one a row for each."""
    first = rows[0]
    sizes = tuple(map(len, first.arguments))
    block = tuple(fitter.fit([row.block[axis] for row in rows]) for axis in range(3))
    for law in block:
        if law is not None and not isinstance(law, Number):
            fitter.offer(law)
    words, regions, called, reached = _words(rows, fitter)
    for length in regions:
        if isinstance(length, Sum):  # a grid is often made of the elements of a buffer
            width = math.gcd(4, *(factor for factor, _ in length.parts))
            elements = Sum(tuple((factor // width, product) for factor, product in length.parts))
            fitter.offer(elements)
    grid = tuple(fitter.fit([row.grid[axis] for row in rows]) for axis in range(3))
    found = LaunchLaw(
        module=first.module,
        kernel=first.kernel,
        grid=grid,
        block=block,
        shared_bytes=fitter.fit([row.shared_bytes for row in rows]),
        words=words,
        regions=regions,
        parameter_bytes=sizes,
        names=tuple(next(iter(one)) if len(one) == 1 else "" for one in called),
        called=called,
        clustered=any(row.cluster != (1, 1, 1) for row in rows),
    )
    return found, reached


def _words(
    rows: list[Launched], fitter: Fitter
) -> tuple[
    dict[tuple[int, int, int], Word],
    tuple[Expression | None, ...],
    tuple[frozenset[str], ...],
    tuple[tuple[int, ...], ...],
]:
    """Return what lies in the arguments, and of what their pointers reach the lengths, the names
    and the addresses (one a row).
    """
    found: dict[tuple[int, int, int], Word] = {}
    reached: dict[tuple[int, ...], int] = {}  # bases, one a row -> number of the region
    lengths: list[Expression | None] = []
    waiting: list[tuple[tuple[int, int, int], list[int]]] = []
    for number, data in enumerate(rows[0].arguments):
        if any(len(row.arguments[number]) != len(data) for row in rows):
            continue
        for width in (8, 4, 2, 1):
            for offset in range(0, len(data) - width + 1, width):
                values = [
                    int.from_bytes(row.arguments[number][offset : offset + width], "little")
                    for row in rows
                ]
                waiting.append(((number, offset, width), values))
    held: dict[tuple[int, int, int], list[int]] = {}
    for where, values in waiting:
        places = [_region(row, value) for row, value in zip(rows, values, strict=True)]
        if where[2] == 8 and all(place is not None for place in places):
            known = [place for place in places if place is not None]
            bases = tuple(place[0] for place in known)
            if bases not in reached:
                overlaps = any(
                    a == b for other in list(reached) for a, b in zip(bases, other, strict=True)
                )
                if overlaps:
                    found[where] = Lawless("its memory is another argument's at some sizes only")
                    continue
                reached[bases] = len(lengths)
                lengths.append(fitter.fit([place[1] for place in known]))
            inside = fitter.fit([v - place[0] for v, place in zip(values, known, strict=True)])
            found[where] = (
                Lawless("no law was found for its offset")
                if inside is None
                else Place(reached[bases], inside)
            )
        else:
            held[where] = values
    # Words that depend on fewest axes first: what they show helps to fit the others.
    for where, values in held.items():
        bits = 8 * where[2]
        signed = [v - (1 << bits) if v >> (bits - 1) else v for v in values]
        law = fitter.fit(signed) if where[2] >= 4 else fitter.constant(signed)
        found[where] = Lawless("no law was found for its value") if law is None else Scalar(law)
        if law is not None and where[2] >= 4 and not isinstance(law, Number | Axis):
            fitter.offer(law)
    refit = [
        (where, values)
        for where, values in held.items()
        if isinstance(found[where], Lawless) and where[2] >= 4
    ]
    for where, values in refit:
        bits = 8 * where[2]
        law = fitter.fit([v - (1 << bits) if v >> (bits - 1) else v for v in values])
        if law is not None:
            found[where] = Scalar(law)
    for bases, number in reached.items():
        if lengths[number] is None:
            sizes = [
                next(size for base, size in row.regions if base == here)
                for row, here in zip(rows, bases, strict=True)
            ]
            lengths[number] = fitter.fit(sizes)
    called = tuple(  # the names that a region has in some launch
        frozenset(
            dict(zip((base for base, _ in row.regions), row.names, strict=False)).get(here, "")
            for row, here in zip(rows, bases, strict=True)
        )
        for bases in reached
    )
    return found, tuple(lengths), called, tuple(reached)


def _region(row: Launched, value: int) -> tuple[int, int] | None:
    """Return (base, bytes) of the region that an address lies in, or is one past."""
    best = None
    for base, size in row.regions:
        if base <= value < base + size:
            return base, size
        if value == base + size and size:
            best = base, size
    return best


# ---- fitting


@dataclass(slots=True)
class Fitter:
    """Fits integer laws to values at sizes; the first `fitting` rows fit, the rest confirm."""

    sizes: list[Sizes]
    fitting: int
    _features: list[tuple[Expression, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in self.sizes[0]:
            values = [row[name] for row in self.sizes]
            if len(set(values)) > 1 and all(values != held for _, held in self._features):
                self._features.append((Axis(name), values))

    def offer(self, law: Expression) -> None:
        """Let a law be a part of others."""
        values = [evaluated(law, row) for row in self.sizes]
        few = len(self._features) < 10
        if few and len(set(values)) > 1 and all(values != held for _, held in self._features):
            self._features.append((law, values))

    def constant(self, values: Sequence[int]) -> Expression | None:
        """Return the constant that all values are, or None."""
        return Number(values[0]) if len(set(values)) == 1 else None

    def fit(self, values: Sequence[int]) -> Expression | None:
        """Return a law that gives every value, or None. Fitted without the confirming rows."""
        if len(set(values[: self.fitting])) == 1:
            return self.constant(values)
        for law in self._candidates(list(values)):
            confirmed = all(
                evaluated(law, row) == value for row, value in zip(self.sizes, values, strict=True)
            )
            if confirmed:
                return law
        return None

    def _candidates(self, values: list[int]) -> Iterator[Expression]:
        known = values[: self.fitting]
        yield from self._plain(known)
        yield from self._affine(known)
        top, bottom = max(known), min(known)
        for bound, limit in ((Bound.LESSER, top), (Bound.GREATER, bottom)):
            free = [n for n, value in enumerate(known) if value != limit]
            if len(free) >= 4 and len(known) - len(free) >= 2:
                inner = Fitter([self.sizes[n] for n in free], len(free))
                inner._features += [
                    (law, [held[n] for n in free])
                    for law, held in self._features
                    if not isinstance(law, Axis)
                ]
                for law in itertools.islice(inner._plain([known[n] for n in free]), 4):
                    yield Limited(bound, law, limit)

    def _plain(self, known: list[int]) -> Iterator[Expression]:
        for product, column in self._products(self._features, len(known)):
            yield from _linear(product, column, known)
        for product, column in self._products(self._features, len(known)):
            yield from _stepped(product, column, known)
        count = len(known)
        found = list(self._features[:6])
        for law, column in self._features[:6]:
            if not isinstance(law, Axis | Floor | Sum):
                continue
            for step in _STEPS:
                rounded = [-(-value // step) for value in column]
                if len(set(rounded[:count])) > 1:
                    found.append((Floor(law, step - 1, step), rounded))
            powers = [1 << max(value - 1, 0).bit_length() for value in column]
            found.append((Power(law), powers))
        for product, column in self._products(found, len(known), most=3):
            yield from _linear(product, column, known)

    @staticmethod
    def _products(
        features: list[tuple[Expression, list[int]]], count: int, *, most: int = _DEGREE
    ) -> Iterator[tuple[tuple[Expression, ...], list[int]]]:
        many = len(features) > 10
        for degree in range(1, min(len(features), 2 if many else most) + 1):
            for chosen in itertools.combinations(features, degree):
                column = [1] * count
                for _, values in chosen:
                    column = [a * b for a, b in zip(column, values[:count], strict=True)]
                yield tuple(law for law, _ in chosen), column
        for law, values in features[:6]:
            yield (law, law), [value * value for value in values[:count]]

    def _affine(self, known: list[int]) -> Iterator[Expression]:
        """Yield a sum of multiples of products, solved exactly in rationals."""
        columns = [
            (product, column)
            for product, column in self._products(self._features, len(known), most=3)
        ][: max(0, len(known) - 3)][:14]
        columns.append(((), [1] * len(known)))
        matrix = [
            [Fraction(column[row]) for _, column in columns] + [Fraction(known[row])]
            for row in range(len(known))
        ]
        solution = _solved(matrix, len(columns))
        if solution is None or any(one.denominator != 1 for one in solution):
            return
        yield Sum(
            tuple(
                (int(factor), product)
                for factor, (product, _) in zip(solution, columns, strict=True)
                if factor
            )
        )


def _linear(
    product: tuple[Expression, ...], column: list[int], known: list[int]
) -> Iterator[Expression]:
    """Yield factor * product + constant where two rows give one."""
    low = min(range(len(column)), key=column.__getitem__)
    high = max(range(len(column)), key=column.__getitem__)
    if column[low] == column[high]:
        return
    factor, rest = divmod(known[high] - known[low], column[high] - column[low])
    if rest or not factor:
        return
    constant = known[low] - factor * column[low]
    if all(factor * x + constant == y for x, y in zip(column, known, strict=True)):
        parts: list[tuple[int, tuple[Expression, ...]]] = [(factor, product)]
        if constant:
            parts.append((constant, ()))
        plain = factor == 1 and not constant and len(product) == 1
        yield product[0] if plain else Sum(tuple(parts))


def _stepped(
    product: tuple[Expression, ...], column: list[int], known: list[int]
) -> Iterator[Expression]:
    """Yield floor((product + add) / step): ceilings, and lengths after striding."""
    low = min(range(len(column)), key=column.__getitem__)
    high = max(range(len(column)), key=column.__getitem__)
    rise, run = known[high] - known[low], column[high] - column[low]
    if rise <= 0 or run <= rise:
        return
    least, most = run / (rise + 1), run / max(rise - 1, 0.5)
    steps = {one for one in _STEPS if least - 1 <= one <= most + 1}
    steps |= set(range(max(2, int(least) - 1), min(int(most) + 2, int(least) + 40)))
    of = product[0] if len(product) == 1 else Sum(((1, product),))
    for step in sorted(steps, key=lambda one: (one & (one - 1) != 0, one)):
        rests = [x - step * y for x, y in zip(column, known, strict=True)]
        below, above = min(rests), max(rests)
        if above - below > step - 1:
            continue
        if -(step - 1) <= below and above <= 0:
            yield Floor(of, step - 1, step)
        if below >= 0 and above <= step - 1:
            yield Floor(of, 0, step)
        if above - below == step - 1:
            yield Floor(of, -below, step)


def _solved(matrix: list[list[Fraction]], unknowns: int) -> list[Fraction] | None:
    """Return the solution of equations by elimination; None where there is none, free ones 0."""
    rows = [list(row) for row in matrix]
    pivots: list[int] = []
    place = 0
    for column in range(unknowns):
        pivot = next((n for n in range(place, len(rows)) if rows[n][column]), None)
        if pivot is None:
            continue
        rows[place], rows[pivot] = rows[pivot], rows[place]
        scale = rows[place][column]
        rows[place] = [value / scale for value in rows[place]]
        for number, row in enumerate(rows):
            if number != place and row[column]:
                factor = row[column]
                rows[number] = [a - factor * b for a, b in zip(row, rows[place], strict=True)]
        pivots.append(column)
        place += 1
    if any(row[-1] for row in rows[place:]):
        return None
    solution = [Fraction(0)] * unknowns
    for number, column in enumerate(pivots):
        solution[column] = rows[number][-1]
    return solution
