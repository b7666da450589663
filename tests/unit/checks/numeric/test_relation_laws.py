"""Laws of relations: what a right operator's answers add up to, and a broken one's do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.checks.numeric.relation_laws import Term, applied, laws
from cuassay.checks.numeric.relation_members import members
from cuassay.checks.numeric.relation_residual import holds_exactly, residual
from cuassay.model.case import Case, Fill
from cuassay.model.relation import (
    AdditiveOver,
    DuplicatesAgree,
    Homogeneous,
    LinearIn,
    PermutationEquivariant,
    PrefixStable,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
)
from tests.support.fake_trial import FakeTrial, axis, problem, tensor

Function = Callable[[torch.Tensor], torch.Tensor]
_BASE = Case(label="base", axes={"rows": 6, "cols": 9}, fills={"x": Fill(kind="normal")}, seed=4)


def _trial(reference: Function, *output: str) -> FakeTrial:
    made = problem(
        "op",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", *output)],
        workloads=[{"rows": 6, "cols": 9}],
    )
    return FakeTrial(made, reference)


_WHOLE, _ROWS = ("rows", "cols"), ("rows",)


@pytest.mark.parametrize(
    ("relation", "output", "right", "wrong"),
    [
        (RowsIndependent(axis="rows"), _WHOLE, torch.sin, lambda x: x - x.mean(0)),
        (PermutationEquivariant(axis="rows"), _WHOLE, lambda x: x - x.mean(0),
         lambda x: x * torch.arange(1.0, len(x) + 1)[:, None]),
        (DuplicatesAgree(axis="rows"), _WHOLE, torch.exp,
         lambda x: x * torch.arange(1.0, len(x) + 1)[:, None]),
        (PrefixStable(axis="rows"), _WHOLE, lambda x: x.cumsum(0), lambda x: x.flip(0).cumsum(0)),
        (AdditiveOver(axis="cols"), _ROWS, lambda x: x.sum(1), lambda x: x.amax(1)),
        (AdditiveOver(axis="cols", mean=True), _ROWS, lambda x: x.mean(1), lambda x: x.sum(1)),
        (LinearIn(input="x"), _WHOLE, lambda x: 3 * x, lambda x: 3 * x + 1),
        (Homogeneous(input="x", degree=2), _WHOLE, lambda x: x * x, lambda x: x),
        (ShiftInvariant(input="x", axis="cols"), _WHOLE, lambda x: x - x.mean(1, keepdim=True),
         lambda x: x),
        (RowsSumToOne(output="y", axis="cols"), _WHOLE, lambda x: x.softmax(1),
         lambda x: x.softmax(0)),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Relation) else "",
)  # fmt: skip
def test_a_law_holds_of_what_obeys_it_and_of_nothing_else(
    relation: Relation, output: tuple[str, ...], right: Function, wrong: Function
) -> None:
    trial = _trial(right, *output)
    cases = members(trial.problem, relation, _BASE, limit=10**6)
    assert len(cases) > 1 or isinstance(relation, DuplicatesAgree)
    given = laws(trial.problem, relation, cases)
    assert given
    inputs = [torch.as_tensor(trial.inputs(case)["x"]).double() for case in cases]
    assert all(holds_exactly(law, [[right(x)] for x in inputs]) for law in given)
    assert not all(holds_exactly(law, [[wrong(x)] for x in inputs]) for law in given)
    # A kernel's answers are held to what each may be off by.
    truths = {number: trial.truth(case).outputs[0] for number, case in enumerate(cases)}
    for law in given:
        exact = {number: right(x) for number, x in enumerate(inputs)}
        found = residual(law, exact, truths)
        assert found is None or found.peak < 3
    broken = [residual(law, {n: wrong(x) for n, x in enumerate(inputs)}, truths) for law in given]
    assert max(one.peak for one in broken if one is not None) > 100


def test_a_term_speaks_of_slices_and_their_sum() -> None:
    value = torch.arange(6.0).reshape(3, 2)
    assert applied(Term(member=0, rows=(2, 0), axis=0), value).tolist() == [[4, 5], [0, 1]]
    assert applied(Term(member=0, rows=(1,), axis=1, summed=0), value).tolist() == [9.0]
