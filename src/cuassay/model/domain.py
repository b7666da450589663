"""Legal domains of inputs: which values a caller may pass. A finding outside one is advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias


class Structure(StrEnum):
    """What holds for the square matrices of the last two dimensions of a tensor."""

    GENERAL = "general"  # nothing
    SYMMETRIC = "symmetric"
    POSITIVE_DEFINITE = "positive_definite"  # and symmetric
    UPPER_TRIANGULAR = "upper_triangular"
    LOWER_TRIANGULAR = "lower_triangular"
    DIAGONAL = "diagonal"

    @property
    def words(self) -> str:
        """The structure as an adjective: `upper triangular`."""
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """Any finite number within [low, high]; None leaves a side open.

    Of a `structure` other than general the matrices of the last two dimensions, which are of one
    size, have that structure: what a triangular one leaves out is zero, whatever the bounds.
    `also` names numbers that are not finite and may stand among the others, whatever the bounds:
    "-inf", "inf" or "nan"; cuassay puts them into some cases, never at the start of a row.
    `numbers_of` names a narrower floating dtype: the tensor holds none but its numbers.
    """

    low: float | None = None
    high: float | None = None
    structure: Structure = Structure.GENERAL
    also: tuple[str, ...] = ()
    numbers_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Positive:
    """Strictly positive numbers, such as variances and reciprocal standard deviations."""

    low: float = 1e-3
    high: float = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Probability:
    """Non-negative numbers that sum to one along `axis`."""

    axis: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Integers in [0, size of `axis`), or one of `sentinels`; `unique` forbids repeats.

    `axis` is an axis name, a decimal literal or an expression of axis names. Of a table of pages
    `lengths` names the input that holds the length of each row, and an entry stands for `per` of
    it (the tokens of a page): what lies beyond the last entry in use may be any integer. A
    sentinel may stand there more than once, `unique` or not.
    """

    axis: str
    sentinels: tuple[int, ...] = ()
    unique: bool = False
    lengths: str = ""
    per: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Integers from `low` to the size of `axis`: how much of it each row has in use.

    Of a length that is kept in pages, `page` is how much one holds: lengths beside its edges are
    drawn. Beside them rows are empty, full, of one element, and one is long among short ones.
    """

    axis: str
    low: int = 0
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Sorted offsets from 0 to the size of `axis` (cu_seqlens, indptr).

    All are multiples of `multiple_of` but the last. With `short` the last one may lie below the
    size: rows of that axis beyond it are padding, which may hold anything.
    """

    axis: str
    multiple_of: int = 1
    short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A mask. `kind` is arbitrary, causal or padding; `additive` holds 0 and a large negative.

    A padding mask of `lengths`, an input, keeps as many of a row as that says.
    """

    kind: str = "arbitrary"
    additive: bool = False
    lengths: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Integers whose bytes hold codes of `bits` bits, each from `low` to `high` (None: the last).

    Quantised weights and their zero points: eight codes of 4 bits in an int32, two in a byte.
    """

    bits: int = 4
    low: int = 0
    high: int | None = None

    @property
    def top(self) -> int:
        """The largest code."""
        return (1 << self.bits) - 1 if self.high is None else self.high


SCALE_TILES: Mapping[str, tuple[int, int]] = MappingProxyType({"128x4": (128, 4), "8x4": (8, 4)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Swizzled:
    """Scales of blocks, from `low` to `high`, in a `layout` of tensor cores: 128x4 or 8x4.

    `rows` and `columns` are axes or expressions of axes: how many scales there are. The tensor
    holds whole tiles of the layout (see `cuassay.formats.native.scale_layouts`), and what pads
    them may be anything. Bounds of a uint8 tensor are codes (E8M0).
    """

    rows: str
    columns: str
    layout: str = "128x4"
    low: float = 2.0**-6
    high: float = 2.0**6


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRange:
    """Integers within [low, high], both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a closed list of scalar values."""

    values: tuple[float | int | bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeOf:
    """The size of an axis or an expression of axes, of a scalar argument that repeats it."""

    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Only the problem's own generator knows legal values; `why` says so to the user."""

    why: str = ""
    seen: tuple[str, ...] = field(default=())


Domain: TypeAlias = (
    Real
    | Positive
    | Probability
    | Index
    | Lengths
    | Offsets
    | Mask
    | IntegerRange
    | Packed
    | Swizzled
    | Choice
    | SizeOf
    | Opaque
)


def domain_axes(domain: Domain) -> Iterator[str]:
    """Yield the axis expressions that a domain names."""
    if isinstance(domain, Index | Lengths | Offsets | SizeOf):
        yield domain.axis
    if isinstance(domain, Swizzled):
        yield from (domain.rows, domain.columns)
