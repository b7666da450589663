"""Each size in turn: what is wrong at one size alone is found, and said of that size alone."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import torch

from cuassay.checks.numeric.each_size import each_size, swept
from cuassay.checks.numeric.shapes import Shp001
from cuassay.model.case import Case
from cuassay.model.effort import Effort
from cuassay.model.trace import Finished, ScenarioResult
from cuassay.model.verdict import Profile
from tests.support.fake_trial import FakeTrial, examine, row_sum


def by_a_table(x: torch.Tensor) -> torch.Tensor:
    table = torch.ones(401)
    table[347] = 1.1
    return x.sum(-1) * table[x.shape[1] % 401]


def by_halves(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[1] // 2  # another order of its sum at each size, which is honest
    return x[:, :half].sum(-1) + x[:, half:].sum(-1)


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def ends_at_347(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] == 347:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return x.sum(-1)


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> FakeTrial:
    """A trial at `standard` that no clock ends before all small sizes were called."""
    monkeypatch.setattr(Effort, "each_size_s", 3600.0)
    monkeypatch.setattr(Effort, "each_size", 500)
    made = row_sum(declared=True)
    made.profile = Profile.STANDARD
    return made


def test_one_wrong_size_is_found_and_named_alone(trial: FakeTrial) -> None:
    (found, *_) = examine(Shp001(), trial, lambda: by_a_table)
    assert "cols = 347: " in found.message
    assert found.where is not None
    assert found.where.axes["cols"] == 347
    assert found.scenario is not None
    assert [dict(case.axes)["cols"] for case in found.scenario.cases] == [347]


def test_the_same_kernel_without_the_entry_is_right_at_all_sizes(trial: FakeTrial) -> None:
    assert examine(Shp001(), trial, lambda: plain) == []


def test_truth_is_made_of_few_sizes_and_another_order_of_sums_is_right(
    trial: FakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[str]()
    compare = FakeTrial.compare

    def counted(self: FakeTrial, case: Case, *given: Any, **named: Any) -> Any:
        made.append(case.label)
        return compare(self, case, *given, **named)

    monkeypatch.setattr(FakeTrial, "compare", counted)
    assert examine(Shp001(), trial, lambda: by_halves) == []
    swept_sizes = sum(len(one.cases) for one in each_size(trial))
    assert len(made) - len(trial.cases("shapes")) < swept_sizes / 4


def test_a_size_at_which_the_call_does_not_end_well_is_named(trial: FakeTrial) -> None:
    (found, *_) = examine(Shp001(), trial, lambda: ends_at_347)
    assert "cols = 347" in found.message


def test_no_size_up_to_the_last_one_is_left_out(trial: FakeTrial) -> None:
    scenarios = list(each_size(trial))
    for name in ("rows", "cols"):
        sizes = {
            case.axes[name]
            for scenario in scenarios
            for case in scenario.cases
            if scenario.cases[0].axes[name] != scenario.cases[-1].axes[name]
        }
        assert sizes == set(range(min(sizes), max(sizes) + 1))
        assert len(sizes) == 500
    result = ScenarioResult(records=(), termination=Finished(), output_text="")
    said = swept((one, result) for one in scenarios)
    assert said.startswith("each size in turn: ")
    assert "rows to" in said


def test_undeclared_bounds_and_quick_have_none() -> None:
    undeclared = row_sum(declared=False)
    undeclared.profile = Profile.STANDARD
    assert list(each_size(undeclared)) == []
    assert list(each_size(row_sum(declared=True))) == []


def test_a_busy_machine_takes_no_size_away(
    trial: FakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Effort, "each_size_s", 2.0)
    monkeypatch.setattr(time, "process_time", lambda: time.monotonic() / 1e3)  # others run
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 0.05 * next(clock))
    assert sum(len(one.cases) for one in each_size(trial)) == 1000


def test_calls_that_take_long_end_it(trial: FakeTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Effort, "each_size_s", 2.0)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    called = 0
    for scenario in each_size(trial):
        called += len(scenario.cases)
        now[0] += 0.1 * len(scenario.cases)
    assert 24 <= called <= 72
