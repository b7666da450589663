"""What a relation says of the answers to its cases: sums that must vanish.

A law is a sum over the answers of `coefficient * answer`, slices of each chosen along one
axis, perhaps summed over an axis, less a constant. On the float64 reference it vanishes to
rounding, which is how a relation is verified; of a kernel's answers it must vanish to within
the combination of what each answer may be off by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.numeric.relation_members import taken
from cuassay.model.case import Case
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.relation import (
    AdditiveOver,
    Conserves,
    DuplicatesAgree,
    Homogeneous,
    LinearIn,
    PermutationEquivariant,
    PrefixStable,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
    outputs_of,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """`coefficient` times the answer to case `member`, slices `rows` along dimension `axis`."""

    member: int
    coefficient: float = 1.0
    rows: tuple[int, ...] | None = None
    axis: int = 0
    summed: int | None = None  # dimension to sum over


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The terms of one output add up to `constant`; `members` are the cases they speak of."""

    output: int  # position among the problem's outputs
    terms: tuple[Term, ...]
    constant: float = 0.0


def laws(problem: Problem, relation: Relation, cases: Sequence[Case]) -> list[Law]:
    """Return the laws of a relation on its members (see relation_members.members)."""
    wanted = outputs_of(relation)
    return [
        law
        for position, spec in enumerate(problem.outputs)
        if not wanted or spec.name in wanted
        for law in _laws(relation, cases, spec, position)
    ]


def _laws(
    relation: Relation, cases: Sequence[Case], spec: TensorSpec, position: int
) -> Iterator[Law]:
    match relation:
        case PermutationEquivariant(axis=axis):
            yield from _selected(cases, spec, position, axis)
        case RowsIndependent(axis=axis) | PrefixStable(axis=axis) if spec.shape.count(axis) == 1:
            yield from _selected(cases, spec, position, axis)
        case DuplicatesAgree(axis=axis) if spec.shape.count(axis) == 1:
            along = spec.shape.index(axis)
            for member, rows in enumerate(taken(case, axis) for case in cases):
                if rows is not None:
                    first = tuple(rows.index(row) for row in rows)
                    own = Term(member=member, coefficient=-1.0, rows=first, axis=along)
                    yield _equal(position, Term(member=member), own)
        case AdditiveOver(axis=axis, mean=mean) if axis not in spec.shape:
            shares = {
                member: case.axes[axis] / cases[0].axes[axis] if mean else 1.0
                for member, case in enumerate(cases)
                if taken(case, axis) is not None
            }
            parts = [Term(member=member, coefficient=-share) for member, share in shares.items()]
            if len(parts) == 2:
                yield Law(output=position, terms=(Term(member=0), *parts))
        case LinearIn() if len(cases) == 4:
            halves = (Term(member=1, coefficient=-1.0), Term(member=2, coefficient=-1.0))
            yield Law(output=position, terms=(Term(member=0), *halves))
            yield _equal(position, Term(member=3), Term(member=0, coefficient=-2.0))
        case Homogeneous(input=name, degree=degree):
            yield from _scaled(cases, position, name, by="scale_by", degree=degree)
        case ShiftInvariant(input=name):
            yield from _scaled(cases, position, name, by="shift", degree=0)
        case RowsSumToOne(axis=axis) if axis in spec.shape:
            along = spec.shape.index(axis)
            sums = [Term(member=member, summed=along) for member in range(len(cases))]
            yield from (Law(output=position, terms=(term,), constant=1.0) for term in sums)
        case Conserves(input=name):
            fills = [case.fills.get(name) for case in cases]
            ones = [m for m, fill in enumerate(fills) if fill is not None and fill.kind == "ones"]
            totals = [Term(member=member) for member in ones]
            yield from (Law(output=position, terms=(term,), constant=1.0) for term in totals)


def _scaled(
    cases: Sequence[Case], position: int, name: str, *, by: str, degree: float
) -> Iterator[Law]:
    """Each member moved `by` a number has the base's answer times that number to the `degree`."""
    for member, case in enumerate(cases):
        value = case.fills[name].parameters.get(by) if name in case.fills else None
        number = float(value) if isinstance(value, int | float) else None
        if number is not None:
            base = Term(member=0, coefficient=-(number**degree))
            yield _equal(position, Term(member=member), base)


def _selected(cases: Sequence[Case], spec: TensorSpec, position: int, axis: str) -> Iterator[Law]:
    """Each member's answer equals the chosen slices of the base's; all of it without the axis."""
    for member, case in enumerate(cases):
        rows = taken(case, axis)
        if rows is None:
            continue
        along = spec.shape.index(axis) if axis in spec.shape else 0
        chosen = rows if axis in spec.shape else None
        base = Term(member=0, coefficient=-1.0, rows=chosen, axis=along)
        yield _equal(position, Term(member=member), base)


def _equal(position: int, first: Term, second: Term) -> Law:
    return Law(output=position, terms=(first, second))


def applied(term: Term, value: Tensor) -> Tensor:
    """Return the slices of an answer that a term speaks of, summed where it says so."""
    import torch

    if term.rows is not None:
        index = torch.tensor(term.rows, dtype=torch.int64, device=value.device)
        value = value.index_select(term.axis, index)
    return value if term.summed is None else value.sum(term.summed)
