"""RANK003: replays on several ranks that are wrong, captures that fail, and what is passed over."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.distributed as dist

from cuassay.checks.ranks.graphs import Rank003
from cuassay.model.device import CPU, CUDA
from cuassay.model.outcome import FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.steps import CallRanks, Issued
from cuassay.model.verdict import Profile
from tests.support.fake_trial import OracleTrial, scaled_add
from tests.support.ranked import findings, ranked, trial_of


@pytest.fixture(scope="module")
def trial() -> OracleTrial:
    return dataclasses.replace(trial_of("all_reduce"), device=CUDA)


@pytest.fixture(autouse=True)
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuassay.checks.ranks.graphs.gpu_count", lambda: 3)


def right(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    dist.all_reduce(y)
    return y


def _steps(trial: OracleTrial) -> list[tuple[Scenario, CallRanks]]:
    return [
        (scenario, step)
        for scenario in Rank003().propose(trial)
        for step in scenario.steps
        if isinstance(step, CallRanks)
    ]


def test_fewest_ranks_at_quick_and_all_that_have_a_gpu_each_beyond(trial: OracleTrial) -> None:
    quick = _steps(trial)
    assert [(step.late, step.issued) for _, step in quick] == [
        (None, Issued.BY_GRAPH),
        (1, Issued.BY_GRAPH),
    ]
    assert len({case.seed for case in quick[0][0].cases}) == 4
    standard = _steps(dataclasses.replace(trial, profile=Profile.STANDARD))
    assert [step.late for _, step in standard] == [None, 1, None, 2]


# Without a GPU a rank makes calls where it would replay a graph.
def test_nothing_is_said_of_a_right_kernel_nor_of_the_reference(trial: OracleTrial) -> None:
    with ranked(right, trial) as called:
        assert not list(findings(Rank003(), trial, called))
    assert not list(findings(Rank003(), trial, trial.reference))


def test_a_wrong_replay_is_a_condition(trial: OracleTrial) -> None:
    kept: list[torch.Tensor] = []

    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept.append(right(x))
        return kept[0]

    with ranked(keeps, trial) as called:
        found = next(findings(Rank003(), trial, called))
    assert found.finding_class is FindingClass.UNSAFE
    assert "wrong in replay 2 of 4: 2 ranks, no rank late" in found.message
    assert found.condition.startswith("graphs:")


def test_a_capture_that_fails_is_a_condition_with_its_reason(trial: OracleTrial) -> None:
    calls: list[int] = []

    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("operation not permitted when stream is capturing")
        return right(x)

    with ranked(once, trial) as called:
        found = next(findings(Rank003(), trial, called))
    assert "cannot be captured in a CUDA graph" in found.message
    assert "operation not permitted when stream is capturing" in found.message
    assert found.condition.startswith("graphs:")


def test_a_plain_call_that_is_wrong_or_raises_is_not_blamed_on_graphs(trial: OracleTrial) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return right(x) + 1

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("always")

    for function in (wrong, raises):
        with ranked(function, trial) as called:
            assert not list(findings(Rank003(), trial, called))


def test_one_process_a_cpu_and_shared_gpus_have_no_graphs_of_ranks(
    trial: OracleTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Rank003().skip(trial)
    assert Rank003().skip(scaled_add()) == "a call has one rank"
    on_cpu = dataclasses.replace(trial, device=CPU)
    assert Rank003().skip(on_cpu) == "ranks without a GPU have no CUDA graphs"
    monkeypatch.setattr("cuassay.checks.ranks.graphs.gpu_count", lambda: 1)
    assert Rank003().skip(trial) == "ranks that share a GPU have no CUDA graphs"
