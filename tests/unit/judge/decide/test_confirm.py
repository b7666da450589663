"""Failures by a small margin are looked at again under other seeds; nothing else is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import pytest
from torch import Tensor

from cuassay.errors import CannotJudgeError
from cuassay.judge.decide.confirm import REDRAWN, blamed, confirmed, marginal, redrawn, seen_again
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario
from cuassay.sandbox.host.waits import run_now
from tests.support.fake_trial import FakeTrial, axis, problem, tensor


def _finding(share: float | None, kind: FindingClass = FindingClass.WRONG) -> Finding:
    return Finding(
        code="NUM001",
        title="",
        classes=(),
        finding_class=kind,
        severity=Severity.HIGH,
        message="worst element is 6.3 times the achievable error",
        measured=None if share is None else 6.0 * share,
        allowed=None if share is None else 6.0,
    )


def _same(x: Tensor) -> Tensor:
    return x


TRIAL = FakeTrial(
    problem(
        "copy",
        axes=[axis("rows")],
        inputs=[tensor("x", "rows")],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 4}],
    ),
    _same,
)
SCENARIO = Scenario(
    label="one",
    cases=tuple(Case(label="c", axes={"rows": 4}, seed=seed) for seed in (5, 5, 9)),
    steps=(),
)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((1.2,), True), ((1.2, 1.9), True), ((1.2, 2.1), False), ((None,), False), ((), False)],
)
def test_only_numbers_just_beyond_their_limit_are_marginal(
    shares: tuple[float | None, ...], expected: bool
) -> None:
    assert marginal([_finding(share) for share in shares]) is expected


def test_a_condition_of_use_is_not_marginal() -> None:
    assert not marginal([_finding(1.2, FindingClass.UNSAFE)])


def _luck(failing: Iterable[bool | None]) -> str:
    answers = iter(failing)

    async def judged(scenario: Scenario) -> Sequence[Finding]:
        answer = next(answers)
        if answer is None:
            raise CannotJudgeError("ill-conditioned")
        return [_finding(1.3)] if answer else []

    luck = confirmed(TRIAL, SCENARIO, [_finding(1.2)], judged=judged)  # type: ignore[arg-type]
    return run_now(luck)


@pytest.mark.parametrize(
    "failing",
    [(True, True, True), (True, True, False), (True, False, None), (None, None, None)],
)
def test_what_other_draws_show_too_stands(failing: tuple[bool | None, ...]) -> None:
    assert _luck(failing) == ""


@pytest.mark.parametrize("failing", [(False, False, False), (True, False, False)])
def test_what_most_other_draws_pass_is_luck_and_says_so(failing: tuple[bool, ...]) -> None:
    said = _luck(failing)
    assert f"{failing.count(False)} of {REDRAWN} other draws" in said
    assert "6.3 times" in said


def test_cases_that_shared_a_seed_share_the_new_one() -> None:
    first, second, third = redrawn(TRIAL, SCENARIO, 0).cases  # type: ignore[arg-type]
    assert first.seed == second.seed != third.seed
    assert first.seed not in (5, 9)
    again = redrawn(TRIAL, SCENARIO, 1).cases  # type: ignore[arg-type]
    assert again[0].seed != first.seed
    assert dataclasses.replace(first, seed=5) == SCENARIO.cases[0]


@pytest.mark.parametrize(
    ("shown", "stands"),
    [([True, True], True), ([True, False], False), ([None, None], True), ([], True)],
)
def test_a_difference_between_calls_counts_where_it_shows_in_every_order(
    shown: Sequence[bool | None], stands: bool
) -> None:
    answers = iter(shown)
    finding = dataclasses.replace(_finding(None), cause=Cause.UNINITIALISED)

    async def judged(scenario: Scenario) -> Sequence[Finding]:
        answer = next(answers)
        if answer is None:
            raise CannotJudgeError("ill-conditioned")
        return [finding] if answer else [dataclasses.replace(finding, message="another")]

    found = run_now(seen_again([SCENARIO] * len(shown), finding, judged=judged))
    assert (found == finding) is stands
    assert found.cause is (Cause.UNINITIALISED if stands else Cause.NOT_DETERMINISTIC)
    assert found.finding_class is FindingClass.WRONG


@pytest.mark.parametrize(
    ("shown", "keeps"),
    [([], True), ([Where(output="y", index=(0, 3), got="2")], True),
     ([Where(output="y", index=(0, 3), got="2"), Where(output="y", index=(1,), got="7")], False)],
    ids=["right without", "another number", "the same number"],
)  # fmt: skip
def test_a_number_that_is_wrong_without_a_condition_is_not_blamed_on_it(
    shown: list[Where], keeps: bool
) -> None:
    finding = dataclasses.replace(
        _finding(3.0), cause=Cause.RANKS, where=Where(output="y", index=(1,), got="7")
    )
    answers = iter([None, shown])

    async def judged(scenario: Scenario) -> list[Finding]:
        places = next(answers)
        if places is None:
            raise CannotJudgeError("ill-conditioned")
        return [dataclasses.replace(_finding(3.0), where=place) for place in places]

    found = run_now(blamed([SCENARIO, SCENARIO], finding, judged=judged))
    assert found.cause is (Cause.RANKS if keeps else None)
    assert found.where == finding.where
