"""Facts of inputs as a sidecar file states them, checked against the problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.stated import FactKind, StatedFact

if TYPE_CHECKING:
    from cuassay.formats.sidecar.schema import FactsModel, SidecarModel


def with_facts(problem: Problem, stated: SidecarModel, *, file: Path) -> Problem:
    """Return the problem with the stated facts; their inputs come from its generator alone.

    Raises ProblemError where an input is unknown or no tensor, has a stated domain as well, or
    where nothing makes values that keep the facts.
    """
    known = {spec.name: spec for spec in problem.inputs}
    found: list[StatedFact] = []
    for name, table in stated.facts.items():
        where = f"{file}: facts.{name}"
        if name not in known:
            raise ProblemError(f"{file}: facts: {UnknownNameError('input', name, known)}")
        spec = known[name]
        if not isinstance(spec, TensorSpec):
            raise ProblemError(
                f"{where}: '{name}' is a scalar, expected a tensor; state its domain instead"
            )
        if problem.reference.generator is None:
            raise ProblemError(
                f"{where}: problem '{problem.name}' has no generator that makes values which keep "
                "these facts; add one, or state a domain"
            )
        if name in stated.domains:
            raise ProblemError(
                f"{where}: the file states domains.{name} as well, and values drawn from a domain "
                "keep no facts; remove one of the two tables"
            )
        found += _facts(spec, table, where=where, file=file)
        known[name] = replace(
            spec,
            domain=Opaque(why=f"{file.name} states facts that its generator keeps"),
            domain_source=f"sidecar {file.name}",
        )
    return replace(problem, inputs=tuple(known.values()), stated=(*problem.stated, *found))


def _facts(spec: TensorSpec, table: FactsModel, *, where: str, file: Path) -> Iterator[StatedFact]:
    for axis in table.equal_along:
        if axis not in spec.shape:
            raise ProblemError(
                f"{where}: equal_along: {UnknownNameError('axis', axis, spec.shape)}"
            )
        yield StatedFact(input=spec.name, kind=FactKind.ALONG, axis=axis, where=file.name)
    for kind in FactKind:
        if kind is not FactKind.ALONG and getattr(table, kind.value):
            yield StatedFact(input=spec.name, kind=kind, where=file.name)
