"""NUM003: the condition says what an error needs, and not which family was asked first."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.precision import Num003
from cuassay.model.precision import Precision
from cuassay.oracle.compare.groups import Statistic
from cuassay.oracle.compare.outputs import Comparison
from tests.support.fake_trial import FakeTrial, run_one, scaled_add


class _AskedWideFirst(FakeTrial):
    """Explains every answer by `mixed`; the strict family has `share` of what it allows."""

    share: float

    def compare(
        self, *given: Any, precision: Precision | None = None, grade: bool = False
    ) -> tuple[Comparison, ...]:
        strict = precision is Precision.STRICT
        share = self.share if strict else 0.5
        worst = Statistic(name="P", value=share, limit=1.0, group="whole tensor")
        family = Precision.STRICT if strict else Precision.MIXED
        passed = share <= 1.0
        return (
            Comparison(
                output="y", passed=passed, share=share, statistics=(worst,), precision=family
            ),
        )


@pytest.mark.parametrize(("share", "conditions"), [(2.0, ["precision"]), (0.9, [])])
def test_an_answer_that_the_strict_family_explains_has_no_condition(
    share: float, conditions: list[str]
) -> None:
    """The reference as control is one: the condition would be its own fault otherwise."""
    made = scaled_add()
    trial = _AskedWideFirst(made.problem, made.reference)
    trial.share = share
    scenario = single_call(trial.cases("small")[0], label="a call")
    run = run_one(trial, trial.reference, scenario)
    found = Num003().judge(trial, scenario, run).findings
    assert [one.condition.partition(":")[0] for one in found] == conditions
