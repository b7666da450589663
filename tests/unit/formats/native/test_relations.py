"""Relations declared on native problems: kept, in the digest, and checked for names."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.native.declaration import problem, problem_of, tensor
from cuassay.model import serial
from cuassay.model.problem import Problem
from cuassay.model.relation import (
    AdditiveOver,
    LinearIn,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
)

_X = Annotated[torch.Tensor, tensor("float32", "rows", "cols")]
_Square = Annotated[torch.Tensor, tensor("float32", "cols", "cols")]
_Y = Annotated[torch.Tensor, tensor("float32", "rows", "cols", name="y")]


def _declared(*relations: Relation) -> Problem:
    @problem(
        axes={"rows": (1, 64), "cols": (1, 64)},
        workloads=[{"rows": 4, "cols": 8}],
        relations=relations,
    )
    def product(x: _X, w: _Square) -> _Y:
        return x @ w

    found = problem_of(product)
    assert found is not None
    return found


def test_relations_are_kept_and_change_the_digest() -> None:
    plain, made = _declared(), _declared(RowsIndependent(axis="rows"), LinearIn(input="x"))
    assert plain.relations == ()
    assert made.relations == (RowsIndependent(axis="rows"), LinearIn(input="x"))
    assert made.digest != plain.digest
    assert serial.loads(Problem, serial.dumps(made)) == made


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (LinearIn(input="z"), "unknown tensor input 'z'"),
        (RowsIndependent(axis="rows", outputs=("z",)), "unknown output 'z'"),
        (RowsSumToOne(output="z", axis="cols"), "unknown output 'z'"),
    ],
)
def test_names_that_are_not_there_are_refused(relation: Relation, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        _declared(relation)


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (AdditiveOver(axis="depth"), "axis 'depth' in AdditiveOver.* is a dimension of none"),
        (ShiftInvariant(input="w", axis="rows"), "is a dimension of none of w: cols, cols"),
        (RowsIndependent(axis="cols"), "is a dimension of 'w' more than once"),
    ],
)
def test_axes_that_give_no_slices_are_refused(relation: Relation, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        _declared(relation)
