"""Legal domains of inputs: which values a caller may pass. A finding outside one is advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Structure(StrEnum):
    """What holds for the square matrices of the last two dimensions of a tensor."""

    GENERAL = "general"  # nothing
    SYMMETRIC = "symmetric"
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
    """

    low: float | None = None
    high: float | None = None
    structure: Structure = Structure.GENERAL


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

    `axis` is an axis name, a decimal literal or an expression of axis names.
    """

    axis: str
    sentinels: tuple[int, ...] = ()
    unique: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Sorted offsets from 0 to the size of `axis` (cu_seqlens)."""

    axis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A mask. `kind` is arbitrary, causal or padding; `additive` holds 0 and a large negative."""

    kind: str = "arbitrary"
    additive: bool = False


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
    Real | Positive | Probability | Index | Offsets | Mask | IntegerRange | Choice | SizeOf | Opaque
)
