"""Relations that a native problem declares: every name in them must exist."""

from __future__ import annotations

from collections.abc import Sequence

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.problem import InputSpec, TensorSpec
from cuassay.model.relation import (
    Conserves,
    Homogeneous,
    LinearIn,
    Relation,
    RowsSumToOne,
    ShiftInvariant,
    outputs_of,
    text_of,
)


def read_relations(
    relations: Sequence[Relation],
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    *,
    where: str,
) -> tuple[Relation, ...]:
    """Return the relations. Raises ProblemError or UnknownNameError for names that are not there.

    Whether they hold is for the reference to show, before any is used.
    """
    tensors = {spec.name: spec for spec in inputs if isinstance(spec, TensorSpec)}
    made = {spec.name: spec for spec in outputs}
    for relation in relations:
        hint = f"in {text_of(relation)} of {where}"
        for name in outputs_of(relation):
            if name not in made:
                raise UnknownNameError("output", name, made, hint)
        match relation:
            case LinearIn(input=name) | Homogeneous(input=name) | Conserves(input=name):
                _known(name, tensors, hint)
            case ShiftInvariant(input=name, axis=axis):
                _known(name, tensors, hint)
                _carried(axis, [tensors[name]], hint)
            case RowsSumToOne(output=name, axis=axis):
                _carried(axis, [made[name]], hint)
            case _:
                _carried(relation.axis, list(tensors.values()), hint)
    return tuple(relations)


def _known(name: str, inputs: dict[str, TensorSpec], hint: str) -> None:
    if name not in inputs:
        raise UnknownNameError("tensor input", name, inputs, hint)


def _carried(axis: str, specs: Sequence[TensorSpec], hint: str) -> None:
    """Raise where no tensor has the axis, or one has it twice: there is no slice to speak of."""
    counts = {spec.name: spec.shape.count(axis) for spec in specs}
    if not any(counts.values()):
        shapes = "; ".join(f"{spec.name}: {', '.join(spec.shape)}" for spec in specs)
        raise ProblemError(f"axis '{axis}' {hint} is a dimension of none of {shapes}")
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ProblemError(
            f"axis '{axis}' {hint} is a dimension of '{twice[0]}' more than once; a relation "
            "needs one dimension a tensor"
        )
