"""Whether two kernels compute the same real-number expressions, whatever their roundings.

Both are executed in the algebra of residues (docs/machine-algebra.md) on the same memory. Equal
residues of an output element are evidence that both compute the same expression there: rational
expressions that differ by one of degree d agree by chance for at most d / P of all residues
(Schwartz, JACM 27 (1980), lemma 1; Zippel 1979). Different ones ask for a second look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan.launch import Buffer
from ptxsan.numerics.formats import BY_NAME
from ptxsan.numerics.residues import LOST, NONE, P
from ptxsan.residues import Residues
from ptxsan.runtime.algebra import of_memory

SEEDS, MOST_SEEDS = 2, 8
_MASK = 0xFFFFFFFF
_WIDTHS = {2: np.uint16, 4: np.uint32, 8: np.int64}
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Output:
    """A tensor that a kernel left in memory: its elements' byte offsets in a buffer, in order.

    `type` is f16, bf16, f32 or f64, of which any two can be compared, as conversions change no
    residue; anything else is compared by its bits, `width` bytes each.
    """

    name: str
    buffer: Buffer
    type: str
    offsets: Ints
    width: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Executed:
    """What a kernel's launches left behind, and whether they take square roots."""

    outputs: tuple[Output, ...]
    roots: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """How many output elements are the same expression in both kernels.

    `first` is the first element that is not, as (output, index in its order). `seeds` counts the
    choices of random residues; with `roots`, an element counts as equal if it is so for one of
    them, since half of all residues have no root (`numerics.residues.rooted`).
    """

    elements: int
    equal: int
    first: tuple[str, int] | None
    seeds: int
    roots: bool

    @property
    def share(self) -> float:
        """Equal elements over all of them."""
        return self.equal / max(1, self.elements)

    def chance(self, degree: int) -> float:
        """Return a bound of the probability that a difference of a degree was not seen."""
        once = min(1.0, degree / P)
        return min(1.0, self.seeds * once) if self.roots else float(once**self.seeds)


def equivalent(
    first: Callable[[Residues], Executed],
    second: Callable[[Residues], Executed],
    *,
    seeds: int = SEEDS,
) -> Equivalence:
    """Execute two kernels in the algebra, with fresh memory for each seed, and compare.

    Both functions execute on the same contents of memory and return the same outputs in the same
    order. Raises ValueError where these have different shapes, and what the functions raise.
    """
    same: NDArray[np.bool_] | None = None
    done, roots, names = 0, False, [("", 0)]
    while done < seeds or (roots and done < MOST_SEEDS and same is not None and not same.all()):
        done += 1
        one, other = Residues(seed=done), Residues(seed=done)
        left, right = first(one), second(other)
        roots = left.roots or right.roots
        found = np.concatenate(
            [_equal(a, b, one, other) for a, b in zip(left.outputs, right.outputs, strict=True)]
        )
        names = [(item.name, item.offsets.size) for item in left.outputs]
        same = found if same is None else (same | found if roots else same & found)
    assert same is not None
    return Equivalence(
        elements=int(same.size), equal=int(same.sum()), first=_first(same, names), seeds=done,
        roots=roots,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """What one output has to be: resolved slots with their numbers, or codes of no floats."""

    slots: Ints | None
    values: NDArray[np.float64] | None = None
    codes: Ints | None = None


def expected_at(one: Output, expected: Expected, residues: Residues) -> NDArray[np.bool_]:
    """Return for every element whether a kernel left the expression that is expected there.

    Residues modulo both primes have to agree, where both sides have that modulo the second one.
    """
    codes, there = _codes(one), _written(one)
    if expected.slots is None or expected.values is None or one.type not in BY_NAME:
        if expected.codes is None or one.type in BY_NAME:
            raise ValueError(f"output '{one.name}' is {one.type}, and the reference's is not")
        return np.asarray(there & (codes == expected.codes))
    found, wanted = _residues(one, codes, residues), expected.slots
    rest, other = (found >> 32) & _MASK, (wanted >> 32) & _MASK
    same = ((found & _MASK) == (wanted & _MASK)) & (
        (rest == other) | (rest == LOST) | (other == LOST)
    )
    values = _values(codes, one.type)
    neither = (found == NONE) & (wanted == NONE)
    alike = (values == expected.values) | (np.isnan(values) & np.isnan(expected.values))
    return np.asarray(there & np.where(neither, alike, same & (found != NONE) & (wanted != NONE)))


def _first(same: NDArray[np.bool_], names: Sequence[tuple[str, int]]) -> tuple[str, int] | None:
    if same.all():
        return None
    place = int(np.flatnonzero(~same)[0])
    for name, count in names:
        if place < count:
            return name, place
        place -= count
    return None


def _equal(a: Output, b: Output, of_a: Residues, of_b: Residues) -> NDArray[np.bool_]:
    """Return for every element whether both kernels left the same expression there."""
    mixed = a.type != b.type and not {a.type, b.type} <= set(BY_NAME)
    if a.offsets.size != b.offsets.size or mixed:
        raise ValueError(
            f"output '{a.name}' has {a.offsets.size} elements of {a.type} from one kernel and "
            f"{b.offsets.size} of {b.type} from the other"
        )
    x, y = _codes(a), _codes(b)
    there = _written(a) == _written(b)
    if a.type not in BY_NAME:
        return np.asarray(there & (x == y))
    r, s = _residues(a, x, of_a), _residues(b, y, of_b)
    finite = (r != NONE) & (s != NONE)
    equal: NDArray[np.bool_] = (r & _MASK) == (s & _MASK)
    neither = (r == NONE) & (s == NONE)
    u, v = _values(x, a.type), _values(y, b.type)
    alike = neither & ((u == v) | (np.isnan(u) & np.isnan(v)))
    return np.asarray(there & ((finite & equal) | alike))


def _values(codes: Ints, type_: str) -> NDArray[Any]:
    """Return the values of codes of a float type."""
    if type_ == "f64":
        return codes.view(np.float64)
    if type_ == "f16":
        return codes.astype(np.uint16).view(np.float16)
    if type_ == "bf16":
        codes = codes << 16
    return codes.astype(np.uint32).view(np.float32)


def _codes(one: Output) -> Ints:
    raw = np.stack([one.buffer.data[one.offsets + byte] for byte in range(one.width)], axis=1)
    if one.width not in _WIDTHS:
        return raw[:, 0].astype(np.int64)
    return np.ascontiguousarray(raw).view(_WIDTHS[one.width])[:, 0].astype(np.int64)


def _written(one: Output) -> NDArray[np.bool_]:
    flags = one.buffer.initialised
    if flags is None:
        return np.ones(one.offsets.size, np.bool_)
    return np.asarray(flags[one.offsets], np.bool_)


def _residues(one: Output, codes: Ints, residues: Residues) -> Ints:
    shadow = one.buffer.shadow
    cells = np.zeros(one.offsets.size, np.uint32)
    if shadow is not None:
        cells = shadow.view(np.uint32)[one.offsets >> 1]
    return of_memory(codes, cells, residues.table, BY_NAME[one.type].index)
