"""Checks that run beside others: what is told, and in which order, does not depend on it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuassay.judge import prepare as preparing
from cuassay.judge.bench import Bench
from cuassay.judge.decide.examine import HELPS, Examination
from cuassay.judge.measure import power
from cuassay.judge.plan import search
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.reference import ReferenceRunner
from cuassay.judge.run.unwatched import Unwatched
from cuassay.judge.trial import JudgeTrial
from cuassay.model.events import CheckFinished, Event, FindingReported
from cuassay.model.outcome import CheckReport, Errored, Failed, Passed
from cuassay.model.verdict import Lane, Power, Profile, Verdict
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.waits import run_now
from ptxsan_support.thorough import one_in
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, load

_CHECKS = ("API002", "MEM002", "NUM001", "META001", "LAYOUT001", "DET001")


@pytest.fixture(scope="module")
def gates(nursery: Nursery) -> Iterator[tuple[Gate, Gate]]:
    with (
        Gate("cpu", beside=0, nursery=nursery) as plain,
        Gate("cpu", beside=2, nursery=nursery) as beside,
    ):
        yield plain, beside


def _judged(gate: Gate, name: str, profile: Profile) -> tuple[Verdict, list[Event]]:
    pair = next(pair for pair in PAIRS if pair.name == name)
    events: list[Event] = []
    judged = gate.judge(
        load(pair.problem), pair.bug, profile=profile, seed=5, only=_CHECKS, emit=events.append
    )
    return judged.verdict, events


@pytest.mark.parametrize(
    ("name", "profile"),
    one_in(
        3,
        [
            ("storage_reshaped", Profile.QUICK),  # by a check beside the others
            ("eps_dropped", Profile.QUICK),
            ("storage_reshaped", Profile.STANDARD),
        ],
    ),
)
def test_a_verdict_is_that_of_one_check_after_another(
    gates: tuple[Gate, Gate], name: str, profile: Profile
) -> None:
    (plain, _), (beside, events) = (_judged(gate, name, profile) for gate in gates)
    ran = {span.what for span in beside.timeline if span.lane is Lane.BESIDE}
    assert ran
    # The first side takes some where it is done.
    assert ran <= {"MEM002", "NUM001", "META001", "LAYOUT001"}
    assert [report.code for report in beside.checks] == [*_CHECKS]
    assert (beside.decision, beside.precision_grade) == (plain.decision, plain.precision_grade)
    assert (beside.coverage, beside.tried_sizes) == (plain.coverage, plain.tried_sizes)
    assert beside.conditions == plain.conditions
    for one, other in zip(beside.checks, plain.checks, strict=True):
        # As text: a value that is no number differs from itself.
        same, alike = (repr(dataclasses.replace(each, duration_s=0.0)) for each in (one, other))
        assert same == alike
    told = [event.finding for event in events if isinstance(event, FindingReported)]
    assert told
    assert [finding.id for finding in told] == [f"F{n}" for n in range(1, len(told) + 1)]
    ended = [event.report.code for event in events if isinstance(event, CheckFinished)]
    assert sorted(ended) == sorted(_CHECKS)
    assert ended[-1] == "DET001"  # nothing else runs then


def test_a_correct_kernel_takes_a_process_a_side_and_two_of_their_own(
    gates: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where nothing runs apart from cuassay's workers but APART001."""
    monkeypatch.setattr(Unwatched, "_needs_us", lambda self: "as on a GPU")
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    counts = []
    for gate in gates:
        judged = gate.judge(load(pair.problem), pair.twin, seed=5)
        assert judged.accepted, judged
        counts.append(judged.verdict.workers)
    assert counts == [3, 5]  # one of them for calls as a server makes them


def test_others_begin_beside_what_is_first_in_the_first_process(
    gates: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the first process has built the candidate before."""
    start = preparing.executors_beside

    def after_the_build(bench: Bench, executor: Executor) -> tuple[Executor, ...]:
        assert run_now(executor.pool.wait_built())
        return start(bench, executor)

    monkeypatch.setattr(preparing, "executors_beside", after_the_build)
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    only = ("PROC001", "API002", "NUM001", "META001")
    for gate in gates:
        judged = gate.judge(load(pair.problem), pair.twin, seed=5, only=only)
        assert judged.accepted, judged
        spans = {span.what: span for span in judged.verdict.timeline}
        beside = [span for span in judged.verdict.timeline if span.lane is Lane.BESIDE]
        assert spans["PROC001"].end_s <= spans["API002"].begin_s
        assert all(span.begin_s < spans["PROC001"].end_s for span in beside[:1])
        assert bool(beside) is (gate is gates[1])


@pytest.mark.parametrize(
    "name", one_in(3, ["static_output", "memo_by_address", "static_second_output"])
)
def test_sides_without_a_check_share_the_histories_of_calls(
    gates: tuple[Gate, Gate], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found, its names and its order are those of one side alone."""
    guarded = Examination._guarded
    awaited: set[str] = set()  # checks that begin once another side helps with them

    async def with_help(own: Examination, *given: Any) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name() == HELPS:
            awaited.clear()
        while given[1].code in awaited:  # on a busy machine the other side is done later
            await asyncio.sleep(0.01)
        await guarded(own, *given)

    monkeypatch.setattr(Examination, "_guarded", with_help)
    pair = next(pair for pair in PAIRS if pair.name == name)
    for candidate in (pair.bug, pair.twin):
        told: list[list[str]] = []
        reports = []
        for gate in gates:
            awaited.update({"STATE001"} if gate is gates[1] else ())
            events: list[Event] = []
            judged = gate.judge(
                load(pair.problem),
                candidate,
                seed=5,
                only=("STATE001", "NUM001"),
                emit=events.append,
            )
            found = [event.finding for event in events if isinstance(event, FindingReported)]
            told.append([f"{finding.id} {finding.code} {finding.message}" for finding in found])
            reports.append([_without_clocks(report) for report in judged.verdict.checks])
            spans = [span for span in judged.verdict.timeline if span.what == "STATE001"]
            assert (Lane.BESIDE in {span.lane for span in spans}) is (gate is gates[1])
        assert reports[0] == reports[1]
        assert told[0] == told[1]
        assert bool(told[0]) is (candidate == pair.bug)


def _without_clocks(report: CheckReport) -> CheckReport:
    """Return a report without what a clock ends: its time, and how many calls were made."""
    outcome = report.outcome
    if isinstance(outcome, Passed):
        calls = re.sub(r"\d+ calls in a row", "calls in a row", outcome.summary)
        outcome = dataclasses.replace(outcome, summary=calls)
    return dataclasses.replace(report, duration_s=0.0, outcome=outcome)


def test_what_a_side_raises_that_took_part_is_the_checks(
    gates: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = Examination._guarded

    async def fails_beside(own: Examination, *given: Any) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name() == HELPS and given[1].code == "STATE001":
            raise ZeroDivisionError("of the check")
        await guarded(own, *given)

    monkeypatch.setattr(Examination, "_guarded", fails_beside)
    pair = next(pair for pair in PAIRS if pair.name == "static_output")
    only = ("STATE001", "NUM001")
    judged = gates[1].judge(load(pair.problem), pair.twin, seed=5, only=only)
    (state, values) = judged.verdict.checks
    assert isinstance(state.outcome, Errored)
    assert "of the check" in state.outcome.reason
    assert isinstance(values.outcome, Passed)


def test_power_is_measured_once_by_a_side_that_has_no_check_left(
    nursery: Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[Power | None] = []

    def measure(trial: JudgeTrial) -> Power | None:
        measured.append(power_of_inputs(trial))
        return measured[-1]

    power_of_inputs = power.power_of_inputs
    monkeypatch.setattr(power, "power_of_inputs", measure)
    # The reference's time is taken in the judge: no process is started for it.
    begun: list[ReferenceRunner] = []
    monkeypatch.setattr(ReferenceRunner, "begin", begun.append)
    monkeypatch.setattr(Bench, "has_times", lambda bench, executor: True)  # as on a GPU
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    for beside in (0, 2):
        with Gate("cpu", beside=beside, extras=True, nursery=nursery) as gate:
            judged = gate.judge(load(pair.problem), pair.twin, seed=5, only=_CHECKS)
        assert judged.accepted, judged
        assert judged.verdict.power is measured[-1] is not None
        assert begun == []
    alone, with_others = measured
    assert alone is not None
    assert with_others is not None
    assert (alone.mutants, alone.killed) == (with_others.mutants, with_others.killed)


@pytest.mark.thorough
def test_a_search_beside_others_meets_the_same_cases(
    gates: tuple[Gate, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = search.SearchEffort(seconds=300.0, rounds=1, explore=12, climb=6, elements=1 << 12)
    monkeypatch.setattr(search, "effort_for", lambda profile, device: effort)
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    found = []
    for gate in gates:
        judged = gate.judge(
            load(pair.problem),
            pair.twin,
            profile=Profile.STANDARD,
            seed=5,
            only=("NUM001", "META001", "FUZZ001"),
        )
        assert judged.accepted, judged
        found.append({one.code: one.scenarios for one in judged.verdict.checks})
    assert found[0] == found[1]
    assert found[0]["FUZZ001"] > 12


def test_what_does_not_build_is_told_once(gates: tuple[Gate, Gate], tmp_path: Path) -> None:
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    path = tmp_path / "kernel.py"
    path.write_text("raise ValueError('no')\ndef run(*x): pass\n")
    for gate in gates:
        (report,) = gate.judge(load(pair.problem), path, seed=5, only=_CHECKS).verdict.checks
        assert report.code == "BUILD001"
        assert isinstance(report.outcome, Failed)
        assert [finding.id for finding in report.outcome.findings] == ["F1"]
