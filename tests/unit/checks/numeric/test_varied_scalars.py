"""Every scalar at another value, where the reference takes them together."""

from __future__ import annotations

import dataclasses

from cuassay.checks.numeric.varied_scalars import varied_scalars
from cuassay.errors import ReferenceError_
from cuassay.model.case import Case
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import ScalarSpec
from tests.support.fake_trial import FakeTrial, row_sum, scaled_add


def _trial(refuses: object = None) -> FakeTrial:
    made = scaled_add()
    eps = ScalarSpec(name="eps", dtype=DType.FLOAT32, domain=Real(low=0.5, high=4.0), default=1.0)
    made.problem = dataclasses.replace(made.problem, inputs=(*made.problem.inputs, eps))

    class Refusing(FakeTrial):
        def moves(self, first: Case, second: Case) -> bool:
            if refuses is not None and refuses(second):  # type: ignore[operator]
                raise ReferenceError_("no")
            return True

    return Refusing(made.problem, made.reference)


def _case(trial: FakeTrial) -> Case:
    return dataclasses.replace(trial.cases("small")[0], scalars={"gain": 1.0, "eps": 1.0})


def test_all_scalars_move_together() -> None:
    trial = _trial()
    case = _case(trial)
    moved = varied_scalars(trial, case)
    assert moved.scalars["gain"] != 1.0
    assert moved.scalars["eps"] != 1.0
    assert (moved.seed, moved.axes) == (case.seed, case.axes)


def test_one_alone_moves_where_the_reference_refuses_them_together() -> None:
    def both(case: Case) -> bool:
        return case.scalars["gain"] != 1.0

    trial = _trial(both)
    moved = varied_scalars(trial, _case(trial))
    assert moved.scalars["gain"] == 1.0
    assert moved.scalars["eps"] != 1.0


def test_without_scalars_or_where_all_are_refused_the_case_stays() -> None:
    trial = _trial(lambda case: True)
    case = _case(trial)
    assert varied_scalars(trial, case) is case
    plain = row_sum()
    case = plain.cases("small")[0]
    assert varied_scalars(plain, case) is case
