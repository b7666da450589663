"""The shape of a sidecar file, `cuassay.toml`: domains, axis bounds and what to judge by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, FiniteFloat

from cuassay.formats.sol.schema import Name, Size
from cuassay.formats.strict import StrictModel
from cuassay.model.domain import (
    Choice,
    Domain,
    Index,
    IntegerRange,
    Lengths,
    Mask,
    Offsets,
    Opaque,
    Packed,
    Positive,
    Probability,
    Real,
    SizeOf,
    Structure,
    Swizzled,
)

Length = Annotated[int, Field(ge=1, le=2**48)]


class DomainModel(StrictModel, ABC):
    """A table `[domains.INPUT]` without its `kind`."""

    hints: ClassVar = {
        "min": "a domain's bound is called 'low'",
        "max": "a domain's bound is called 'high'",
    }

    @abstractmethod
    def domain(self) -> Domain:
        """Return the domain that the table states."""


class RealModel(DomainModel):
    """kind = "real"."""

    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    structure: Annotated[Structure, Field(strict=False)] = Structure.GENERAL
    also: list[str] = Field(default_factory=list)
    numbers_of: str = ""

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Real(
            low=self.low,
            high=self.high,
            structure=self.structure,
            also=tuple(self.also),
            numbers_of=self.numbers_of,
        )


class PositiveModel(DomainModel):
    """kind = "positive"."""

    low: FiniteFloat = Positive().low
    high: FiniteFloat = Positive().high

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Positive(low=self.low, high=self.high)


class ProbabilityModel(DomainModel):
    """kind = "probability"."""

    axis: int = -1

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Probability(axis=self.axis)


class IndexModel(DomainModel):
    """kind = "index"."""

    axis: Name
    sentinels: list[int] = Field(default_factory=list)
    unique: bool = False
    lengths: Name | None = None
    per: int = 1

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Index(
            axis=self.axis,
            sentinels=tuple(self.sentinels),
            unique=self.unique,
            lengths=self.lengths or "",
            per=self.per,
        )


class LengthsModel(DomainModel):
    """kind = "lengths"."""

    axis: Name
    low: int = 0
    page: int = 1

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Lengths(axis=self.axis, low=self.low, page=self.page)


class OffsetsModel(DomainModel):
    """kind = "offsets"."""

    axis: Name
    multiple_of: int = 1
    short: bool = False

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Offsets(axis=self.axis, multiple_of=self.multiple_of, short=self.short)


class PackedModel(DomainModel):
    """kind = "packed"."""

    bits: int = 4
    low: int = 0
    high: int | None = None

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Packed(bits=self.bits, low=self.low, high=self.high)


class SwizzledModel(DomainModel):
    """kind = "swizzled"."""

    rows: Name
    columns: Name
    layout: str = "128x4"
    low: FiniteFloat = 2.0**-6
    high: FiniteFloat = 2.0**6

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Swizzled(
            rows=self.rows,
            columns=self.columns,
            layout=self.layout,
            low=self.low,
            high=self.high,
        )


class MaskModel(DomainModel):
    """kind = "mask"; the mask's own kind is called `pattern`."""

    pattern: str = "arbitrary"
    additive: bool = False
    lengths: Name | None = None

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Mask(kind=self.pattern, additive=self.additive, lengths=self.lengths or "")


class IntegerRangeModel(DomainModel):
    """kind = "integer_range"."""

    low: int
    high: int

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return IntegerRange(low=self.low, high=self.high)


class ChoiceModel(DomainModel):
    """kind = "choice"."""

    values: list[bool | int | float]

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Choice(values=tuple(self.values))


class SizeOfModel(DomainModel):
    """kind = "size_of"; `axis` may be an expression of axes."""

    axis: Name

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return SizeOf(axis=self.axis)


class OpaqueModel(DomainModel):
    """kind = "opaque": only the problem's own generator makes legal values."""

    why: str = "the sidecar says so"

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        return Opaque(why=self.why)


DOMAINS: Mapping[str, type[DomainModel]] = {
    "real": RealModel,
    "positive": PositiveModel,
    "probability": ProbabilityModel,
    "index": IndexModel,
    "lengths": LengthsModel,
    "offsets": OffsetsModel,
    "mask": MaskModel,
    "integer_range": IntegerRangeModel,
    "packed": PackedModel,
    "swizzled": SwizzledModel,
    "choice": ChoiceModel,
    "size_of": SizeOfModel,
    "opaque": OpaqueModel,
}


class BoundsModel(StrictModel):
    """A table `[axes.AXIS]`; what is left out stays as the problem has it."""

    hints: ClassVar = {
        "low": "an axis's bound is called 'min'",
        "high": "an axis's bound is called 'max'",
        "minimum": "did you mean 'min'?",
        "maximum": "did you mean 'max'?",
    }

    min: Size | None = None
    max: Length | None = None
    multiple_of: Length | None = None
    sizes: Annotated[list[Length], Field(min_length=1)] | None = None


class FactsModel(StrictModel):
    """A table `[facts.INPUT]`: what holds for a tensor in every call."""

    constant: bool = False
    equal_along: list[Name] = Field(default_factory=list)
    arange: bool = False
    sorted: bool = False
    distinct: bool = False
    binary: bool = False
    symmetric: bool = False
    non_negative: bool = False


class SidecarModel(StrictModel):
    """The whole file. The tables of `domains` are read by their `kind`."""

    domains: dict[str, dict[str, Any]] = Field(default_factory=dict)
    facts: dict[str, FactsModel] = Field(default_factory=dict)
    axes: dict[str, BoundsModel] = Field(default_factory=dict)
    growth_target: dict[str, Length] = Field(default_factory=dict)
    accumulation: str | None = None
    precision: str | None = None
