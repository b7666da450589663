"""Domains of inputs as a sidecar file states them, checked against the problem."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.domain_rules import check_domain, check_ties, domain_words, within
from cuassay.formats.native.axes import check_names
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.domain import Index, Opaque, SizeOf, domain_axes
from cuassay.model.problem import InputSpec, Problem, ScalarSource, ScalarSpec, TensorSpec

if TYPE_CHECKING:
    from cuassay.formats.sidecar.schema import SidecarModel


def with_domains(problem: Problem, stated: SidecarModel, *, file: Path) -> Problem:
    """Return the problem with the stated domains. Raises ProblemError where one cannot be."""
    where = str(file)
    known = [spec.name for spec in problem.inputs]
    for name in stated.domains:
        if name not in known:
            raise ProblemError(f"{where}: domains: {UnknownNameError('input', name, known)}")
    inputs: list[InputSpec] = []
    for spec in problem.inputs:
        table = stated.domains.get(spec.name)
        if table is not None:
            where = f"{file}: domains.{spec.name}"
            from cuassay.formats.sidecar.schema import DOMAINS
            from cuassay.formats.strict import read_model

            kind = table.get("kind")
            if not isinstance(kind, str):
                given = "is missing" if kind is None else f"is {kind!r}"
                raise ProblemError(f"{where}: kind {given}; expected one of {', '.join(DOMAINS)}")
            if kind not in DOMAINS:
                raise ProblemError(f"{where}: {UnknownNameError('kind', kind, DOMAINS)}")
            rest = {key: value for key, value in table.items() if key not in ("kind", "stale")}
            stale = table.get("stale", False)
            if not isinstance(stale, bool):
                raise ProblemError(f"{where}: stale is {stale!r}; expected true or false")
            domain = read_model(
                DOMAINS[kind], rest, where=where, error=ProblemError, strict=True
            ).domain()
            spec = replace(spec, domain=domain, domain_source=f"sidecar {file.name}")
            if stale and isinstance(spec, TensorSpec):
                spec = replace(spec, stale=True)
            _check(spec, problem, where=where)
        inputs.append(spec)
    check_ties(inputs, where=str(file))
    made = replace(problem, inputs=tuple(inputs))
    # Which outputs each index input addresses, derived anew where its axis changed.
    found = dict(problem.index_inputs)
    for name in stated.domains:
        old, new = problem.input(name).domain, made.input(name).domain
        if isinstance(old, Index) and isinstance(new, Index) and old.axis == new.axis:
            continue
        found.pop(name, None)
        axis = new.axis if isinstance(new, Index) else None
        rows = tuple(out.name for out in made.outputs if out.shape and out.shape[0] == axis)
        if rows:
            found[name] = rows
    return replace(made, index_inputs=found)


def _check(spec: InputSpec, problem: Problem, *, where: str) -> None:
    check_domain(spec, where=where)
    if isinstance(spec.domain, Opaque) and problem.reference.generator is None:
        raise ProblemError(
            f"{where}: kind 'opaque' leaves '{spec.name}' to the problem's generator, and "
            f"problem '{problem.name}' has none; state which values are legal"
        )
    for expression in domain_axes(spec.domain):
        check_names(expression, {axis.name for axis in problem.axes}, where=f"{where}: axis")
    if isinstance(spec.domain, Index):
        for workload in problem.workloads:
            sizes = resolve(problem.axes, workload.axes)
            size = evaluate(spec.domain.axis, sizes)
            shape = () if isinstance(spec, ScalarSpec) else shape_of(spec.shape, sizes)
            needed = prod(shape) if spec.domain.unique else 1
            if size < needed:
                raise ProblemError(
                    f"{where}: workload '{workload.id}' needs {needed} "
                    f"{'distinct indices' if spec.domain.unique else 'index'} but "
                    f"{spec.domain.axis} has size {size} there; name a longer axis"
                )
    if isinstance(spec.domain, SizeOf):
        for workload in problem.workloads:
            source = workload.sources.get(spec.name)
            size = evaluate(spec.domain.axis, resolve(problem.axes, workload.axes))
            if isinstance(source, ScalarSource) and source.value != size:
                raise ProblemError(
                    f"{where}: workload '{workload.id}' has {spec.name} = {source.value!r}, where "
                    f"{spec.domain.axis} is {size}; name another axis, or another kind of domain"
                )
    # Check that the scalars which the problem itself passes are legal
    given = [(f"workload '{w.id}'", w.sources.get(spec.name)) for w in problem.workloads]
    values = [(place, s.value) for place, s in given if isinstance(s, ScalarSource)]
    if isinstance(spec, ScalarSpec) and spec.default is not None:
        values.append(("the problem's default", spec.default))
    for place, value in values:
        if not within(value, spec.domain):
            raise ProblemError(
                f"{where}: {place} has {spec.name} = {value!r}, which is not "
                f"{domain_words(spec.domain)}; widen the domain, or change the value"
            )
