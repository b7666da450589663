"""The cases of a relation: transforms of one base that replay alone and that a caller may make."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.checks.numeric.relation_members import members, plain_axis, taken
from cuassay.errors import ProblemError
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Index, Positive, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import ExprAxis, Problem, TensorSpec
from cuassay.model.relation import AdditiveOver, Conserves, LinearIn, RowsIndependent
from tests.support.fake_trial import axis, problem, row_sum, tensor

_BASE = Case(label="base", axes={"rows": 6, "cols": 9}, fills={"x": Fill(kind="normal")}, seed=4)


def test_batches_are_smaller_larger_and_in_another_order() -> None:
    cases = members(row_sum().problem, RowsIndependent(axis="rows"), _BASE, limit=10**6)
    assert [case.axes["rows"] for case in cases] == [6, 6, 1, 3, 24]
    orders = [taken(case, "rows") for case in cases]
    assert orders[0] is None
    assert orders[1] is not None
    assert sorted(orders[1]) == list(range(6)) != list(orders[1])
    assert taken(cases[1], "cols") is None
    assert len({case.seed for case in cases}) == 1


def test_a_member_that_is_too_large_or_was_promised_to_nobody_is_left_out() -> None:
    relation = RowsIndependent(axis="rows")
    fewer = members(row_sum().problem, relation, _BASE, limit=200)
    assert [case.axes["rows"] for case in fewer] == [6, 6, 1, 3]
    undeclared = members(row_sum(declared=False).problem, relation, _BASE, limit=10**6)
    assert [case.axes["rows"] for case in undeclared] == [6, 6]
    one = dataclasses.replace(_BASE, axes={"rows": 1, "cols": 9})
    assert members(row_sum().problem, relation, one, limit=10**6) == ()


def test_parts_of_an_axis_are_a_legal_split_nearest_to_a_third() -> None:
    made = row_sum().problem
    cases = members(made, AdditiveOver(axis="cols"), _BASE, limit=10**6)
    assert [case.axes["cols"] for case in cases] == [9, 3, 6]
    assert taken(cases[2], "cols") == tuple(range(3, 9))
    columns = dataclasses.replace(axis("cols"), multiple_of=4)
    stepped = dataclasses.replace(made, axes=(made.axes[0], columns))
    base = dataclasses.replace(_BASE, axes={"rows": 6, "cols": 16})
    cases = members(stepped, AdditiveOver(axis="cols"), base, limit=10**6)
    assert [case.axes["cols"] for case in cases] == [16, 4, 12]


def test_a_changed_input_of_bounded_values_leaves_the_domain() -> None:
    made = row_sum().problem
    free = members(made, LinearIn(input="x"), _BASE, limit=0)
    assert [case.in_domain for case in free] == [True] * 4
    positive = dataclasses.replace(made.inputs[0], domain=Positive())
    bounded = dataclasses.replace(made, inputs=(positive,))
    found = members(bounded, LinearIn(input="x"), _BASE, limit=0)
    assert [case.in_domain for case in found] == [True, False, False, False]


def test_weights_of_ones_stand_beside_plain_and_large_inputs() -> None:
    made = row_sum().problem
    other = dataclasses.replace(made, inputs=(*made.inputs, tensor("w", "rows", "cols")))
    quiet, loud = members(other, Conserves(input="x"), _BASE, limit=0)
    assert quiet.fills["x"].kind == loud.fills["x"].kind == "ones"
    assert loud.fills["w"].parameters["scale"] == 5.0


@pytest.mark.parametrize(
    "made",
    [
        dataclasses.replace(
            row_sum().problem,
            axes=(*row_sum().problem.axes, ExprAxis(name="e", expression="rows*2")),
        ),
        problem(
            "twice", axes=[axis("rows")], inputs=[tensor("x", "rows", "rows")],
            outputs=[tensor("y", "rows")], workloads=[{"rows": 6}],
        ),
        problem(
            "gather", axes=[axis("rows"), axis("cols")],
            inputs=[
                tensor("x", "rows"),
                TensorSpec(name="i", dtype=DType.INT64, shape=("cols",), domain=Index(axis="rows")),
            ],
            outputs=[tensor("y", "cols")], workloads=[{"rows": 6, "cols": 9}],
        ),
        problem(
            "slices", axes=[axis("rows")], inputs=[tensor("x", "rows // 2", "rows")],
            outputs=[TensorSpec(name="y", dtype=DType.FLOAT32, shape=("rows",), domain=Real())],
            workloads=[{"rows": 6}],
        ),
    ],
    ids=lambda made: made.name,
)  # fmt: skip
def test_slices_of_an_axis_that_something_else_depends_on_cannot_be_chosen(made: Problem) -> None:
    assert plain_axis(row_sum().problem, "rows")
    assert not plain_axis(made, "rows")
    base = dataclasses.replace(_BASE, axes={"rows": 6, "cols": 9, "e": 12})
    with pytest.raises(ProblemError, match="cannot be chosen"):
        members(made, RowsIndependent(axis="rows"), base, limit=10**6)
