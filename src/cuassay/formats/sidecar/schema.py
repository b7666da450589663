"""The shape of a sidecar file, `cuassay.toml`: domains, axis bounds and what to judge by."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, get_type_hints

from pydantic import Field, FiniteFloat, create_model

from cuassay.formats.domain_rules import KINDS
from cuassay.formats.sol.schema import Name, Size
from cuassay.formats.strict import StrictModel
from cuassay.model.domain import Domain, Mask, Opaque, Structure

Length = Annotated[int, Field(ge=1, le=2**48)]
# The types of a domain's fields as TOML has them, where it has others.
_IN_TOML: Mapping[Any, Any] = {
    float: FiniteFloat,
    float | None: FiniteFloat | None,
    tuple[int, ...]: list[int],
    tuple[str, ...]: list[str],
    tuple[float | int | bool, ...]: list[bool | int | float],
    Structure: Annotated[Structure, Field(strict=False)],
}
_NAMES = ("axis", "rows", "columns", "lengths")  # of axes and inputs
_Field: TypeAlias = tuple[type[Domain], str]
_RENAMED: Mapping[_Field, str] = {(Mask, "kind"): "pattern"}  # the table's own key is `kind`
_LEFT_OUT: Collection[_Field] = {(Opaque, "seen")}  # which the table cannot know
_DEFAULTS: Mapping[_Field, Any] = {(Opaque, "why"): "the sidecar says so"}


class DomainModel(StrictModel):
    """A table `[domains.INPUT]` without its `kind`: the fields of a domain."""

    hints: ClassVar = {
        "min": "a domain's bound is called 'low'",
        "max": "a domain's bound is called 'high'",
    }
    kind: ClassVar[type[Domain]]

    def domain(self) -> Domain:
        """Return the domain that the table states."""
        own = {key: name for (kind, name), key in _RENAMED.items() if kind is self.kind}
        values = {name: getattr(self, name) for name in type(self).model_fields}
        given: dict[str, Any] = {
            own.get(name, name): tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return self.kind(**given)


def _model(kind: type[Domain]) -> type[DomainModel]:
    """Return the table that states a domain of a kind."""
    types = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        place, of = (kind, field.name), types[field.name]
        if place in _LEFT_OUT:
            continue
        default = ... if field.default is dataclasses.MISSING else field.default
        form = Name if of is str and field.name in _NAMES else _IN_TOML.get(of, of)
        fields[_RENAMED.get(place, field.name)] = form, _DEFAULTS.get(place, default)
    made = create_model(f"{kind.__name__}Model", __base__=DomainModel, **fields)
    made.kind = kind
    return made


DOMAINS: Mapping[str, type[DomainModel]] = {name: _model(kind) for kind, name in KINDS.items()}


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
