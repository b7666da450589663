"""A problem of which no workload is legal ends a trial before any kernel runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import pytest

from cuassay.errors import ProblemError
from cuassay.judge.plan.preconditions import check_constraints
from tests.support.fake_trial import FakeTrial, scaled_add

if TYPE_CHECKING:
    from cuassay.judge.trial import JudgeTrial


def _check(*constraints: str) -> None:
    trial = scaled_add()
    problem = dataclasses.replace(trial.problem, constraints=constraints)
    check_constraints(cast("JudgeTrial", FakeTrial(problem, trial.reference)))


def test_one_workload_that_keeps_all_constraints_is_enough() -> None:
    _check()
    _check("rows >= 1", "cols >= 1")


def test_no_legal_workload_is_an_error_that_names_a_workload_and_what_it_breaks() -> None:
    with pytest.raises(ProblemError, match="no workload keeps its constraints") as raised:
        _check("rows >= 1", "cols > 100000")
    message = str(raised.value)
    assert "breaks 'cols > 100000'" in message
    assert "rows >= 1" not in message
    assert message.count("'w") <= 3  # not every workload of a long list
