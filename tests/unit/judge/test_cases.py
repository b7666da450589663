"""Sizes that sources and launches name are planned where a call at them takes little."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.inputs.named_sizes import NamedSize, SizeUse
from cuassay.judge.cases import CallCosts
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


def test_no_size_of_the_sources_makes_a_call_that_takes_long(trial: JudgeTrial) -> None:
    asked: list[int] = []

    def executed_s(sizes: Mapping[str, int]) -> float:
        asked.append(sizes["rows"])
        return 1.0

    trial.planned.name_sizes([NamedSize(value=9000, kind=SizeUse.BOUND)])
    free = [dict(case.axes) for case in trial.cases("beyond")]
    assert any(axes["rows"] > 9000 for axes in free)
    trial.planned.plan_by_launches(CallCosts(row_s=1e-3, executed_s=executed_s))
    trial.planned.name_sizes([NamedSize(value=9001, kind=SizeUse.BOUND)])
    assert all(1e-3 * case.axes["rows"] <= 0.4 for case in trial.cases("beyond"))
    assert asked  # the launches might have been few
    assert min(asked) > 400


def test_what_names_more_sizes_is_asked_once_and_before_they_are_planned(
    trial: JudgeTrial,
) -> None:
    asked: list[int] = []

    def name() -> None:
        asked.append(1)
        trial.planned.name_sizes([NamedSize(value=9000, kind=SizeUse.BOUND)])

    trial.planned.plan_by_launches(CallCosts(first=name))
    assert not asked
    assert any(case.axes["rows"] > 9000 for case in trial.cases("beyond"))
    trial.cases("shapes")
    assert asked == [1]
