"""Truth is made in full only where an answer needs it, and the same answer is compared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import reads_of
from cuassay.formats.execute import load_reference
from cuassay.judge import comparing
from cuassay.judge import truths as module
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.precision import Precision
from cuassay.model.verdict import Lane, Profile
from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.truth import make, own_error
from cuassay.oracle.truth.own_error import OwnError
from cuassay.oracle.truth.types import OutputTruth
from cuassay.sandbox.local import LocalRunner


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


def _made(trial: JudgeTrial) -> int:
    return sum(span.lane is Lane.TRUTH for span in trial.timeline.spans)


def _compared(
    trial: JudgeTrial, case: Case, change: Callable[[Tensor], Tensor]
) -> tuple[Comparison, ...]:
    """Return the comparisons by which the answer of a kernel is right or wrong."""

    def kernel(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        right = trial.reference.call(x, weight, eps)
        assert isinstance(right, Tensor)
        return change(right)

    scenario = single_call(case, label="a call")
    run = LocalRunner(kernel, trial.problem).run(scenario, trial.inputs, None)
    answers = Answers(trial, run)
    answers.wrong(reads_of(scenario, run)[0])
    return answers.judgement(()).comparisons


def _wrong(trial: JudgeTrial, case: Case, change: Callable[[Tensor], Tensor]) -> int:
    return sum(not found.passed for found in _compared(trial, case, change))


def _as_it_is(right: Tensor) -> Tensor:
    return right


def _one_bit_off(right: Tensor) -> Tensor:
    other = right.clone()
    least = other.view(-1)[other.abs().argmin()]
    least.copy_(torch.nextafter(least, torch.zeros_like(least)))
    return other


def _one_percent_off(right: Tensor) -> Tensor:
    return right * 1.01


def _beyond_its_own(right: Tensor) -> Tensor:
    """As an honest kernel that rounds in the middle, where the reference does not."""
    noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(1)).clamp(-2, 2)
    return (right.float() * (1.0 + 1.15 * 2.0**-8 * noise)).to(right.dtype)


def _rough(trial: JudgeTrial) -> int:
    return sum(truth.draws == 2 for truth in trial.truths.cache.values())


@pytest.fixture
def draws_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference whose draws are runs of their own: rough truth costs half of a full one."""
    monkeypatch.setattr(make, "is_small", lambda *_, **__: False)


@pytest.mark.parametrize("change", [_as_it_is, _one_bit_off])
def test_an_answer_as_near_as_the_references_own_needs_no_truth(
    trial: JudgeTrial, change: Callable[[Tensor], Tensor]
) -> None:
    first = trial.cases("small")[0]
    cases = [dataclasses.replace(first, seed=first.seed + number) for number in range(8)]
    assert not any(_wrong(trial, case, change) for case in cases)
    assert not trial.truths.cache
    assert _wrong(trial, cases[0], _one_percent_off) == 1  # what was right says nothing of others


def test_the_references_own_bits_need_no_error_of_its_own(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an output of a gigabyte it takes far longer than the run that gives the bits."""
    first, made = trial.cases("small")[0], list[object]()
    one = own_error._own_error

    def noted(*given: Any) -> OwnError:
        made.append(given)
        return one(*given)

    monkeypatch.setattr(own_error, "_own_error", noted)
    assert not _wrong(trial, first, _as_it_is)
    assert not made
    assert not trial.truths._owns
    assert not _wrong(trial, first, _one_bit_off)
    assert len(made) == 1
    assert len(trial.truths._owns) == 1
    assert _wrong(trial, first, _one_percent_off) == 1


@pytest.mark.usefixtures("draws_apart")
def test_kernels_that_err_more_are_not_held_against_the_references_own_error_for_long(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Case] = []
    own = trial.truths.own_errors

    def own_errors(case: Case, **given: Any) -> tuple[OwnError, ...]:
        asked.append(case)
        return own(case, **given)

    monkeypatch.setattr(trial.truths, "own_errors", own_errors)
    first = trial.cases("small")[0]
    for number in range(6):
        case = dataclasses.replace(first, seed=first.seed + number)
        assert not _wrong(trial, case, _beyond_its_own)
    assert len(asked) == comparing._BEYOND_OWN
    assert _rough(trial) == 6


def test_a_case_is_held_against_the_references_own_error_as_often_as_asked_and_run_once(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, asked = trial.cases("small")[0], list[int]()
    made = own_error.own_errors

    def counted(*given: Any, **named: Any) -> Any:
        asked.append(named["seed"])
        return made(*given, **named)

    monkeypatch.setattr(module, "own_errors", counted)
    for _ in range(3):
        assert not _wrong(trial, case, lambda right: right)
    other = dataclasses.replace(case, seed=case.seed + 1)
    assert not _wrong(trial, other, lambda right: right)
    assert len(asked) == len(set(asked)) == 2
    monkeypatch.setattr(module, "_OWN_BYTES", 0)
    third = dataclasses.replace(case, seed=case.seed + 2)
    for _ in range(2):  # the same bits are known
        assert not _wrong(trial, third, _as_it_is)
    assert len(asked) == 3
    assert not _wrong(trial, third, _one_bit_off)
    assert len(asked) == 4
    assert not trial.truths._owns


def test_the_next_candidate_of_a_problem_finds_the_references_own_error_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under one seed it is the same for all of them, as truth is."""
    problem, kept, made = registry.get("rmsnorm"), module.TruthCache(), own_error.own_errors
    asked: list[int] = []

    def counted(*given: Any, **named: Any) -> Any:
        asked.append(named["seed"])
        return made(*given, **named)

    monkeypatch.setattr(module, "own_errors", counted)
    wrong = []
    for _ in range(2):
        trial = open_trial(
            problem,
            load_reference(problem),
            profile=Profile.QUICK,
            device=CPU,
            root_seed=7,
            truths=kept,
        )
        for change in (_one_bit_off, _one_percent_off):
            wrong.append(_wrong(trial, trial.cases("small")[0], change))
    assert wrong == [0, 1, 0, 1]
    assert len(asked) == 1
    assert len(kept.own_errors) == 1


def test_rough_truth_is_the_full_one_where_all_draws_are_one_run(trial: JudgeTrial) -> None:
    case = trial.cases("small")[0]
    (found,) = _compared(trial, case, _beyond_its_own)
    assert found.passed
    assert trial.rough(case) is trial.truth(case)
    assert {truth.draws for truth in trial.truths.cache.values()} == {8}


@pytest.mark.usefixtures("draws_apart")
def test_a_right_answer_needs_rough_truth_alone(trial: JudgeTrial) -> None:
    case = trial.cases("small")[0]
    (found,) = _compared(trial, case, _beyond_its_own)
    assert found.passed
    assert trial.rough(case).draws == 2
    assert len(trial.truths.cache) == 1


@pytest.mark.usefixtures("draws_apart")
def test_a_case_that_decides_nothing_needs_no_full_truth(trial: JudgeTrial) -> None:
    def cancelling(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return ((x.float() + 1e9) * 1.001 - 1.001e9).to(x.dtype)

    reference = dataclasses.replace(trial.reference, call=cancelling)
    chaotic = open_trial(trial.problem, reference, profile=Profile.QUICK, device=CPU, root_seed=7)
    case = chaotic.cases("small")[0]
    assert not _wrong(chaotic, case, _one_percent_off)
    assert [truth.draws for truth in chaotic.truths.cache.values()] == [2]
    assert not chaotic.decides(case)
    assert trial.decides(case)


def test_the_same_bits_are_compared_once_with_a_truth(
    trial: JudgeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[bool]()

    def counted(got: Tensor, output: OutputTruth) -> Comparison:
        seen.append(True)
        return compare(got, output)

    monkeypatch.setattr(comparing, "compare", counted)
    case = trial.cases("small")[0]
    trial.truth(case)
    first, again, third = (_compared(trial, case, _beyond_its_own) for _ in range(3))
    assert first == again == third
    assert len(seen) == 2  # then with the family that explained it first
    other = dataclasses.replace(case, seed=case.seed + 1)
    trial.truth(other)
    assert not _wrong(trial, other, _beyond_its_own)
    assert len(seen) == 3
    assert not _wrong(trial, case, lambda right: _one_bit_off(_beyond_its_own(right)))
    assert len(seen) == 4
    assert [_wrong(trial, case, _one_percent_off) for _ in range(2)] == [1, 1]
    assert len(seen) == 6  # with the family that explained the answers before, and without


def test_a_wrong_answer_is_held_against_the_full_truth(trial: JudgeTrial) -> None:
    case = trial.cases("small")[0]
    (found,) = _compared(trial, case, _one_percent_off)
    assert not found.passed
    assert trial.rough(case) is trial.truth(case)
    assert trial.truth(case).draws == 8


@pytest.mark.usefixtures("draws_apart")
def test_full_truth_comes_first_once_rough_truth_explains_too_little(trial: JudgeTrial) -> None:
    first = trial.cases("small")[0]
    cases = [dataclasses.replace(first, seed=first.seed + number) for number in range(8)]
    assert all(_wrong(trial, case, _one_percent_off) for case in cases)
    rough = [truth for truth in trial.truths.cache.values() if truth.draws == 2]
    assert len(rough) == comparing._ROUGH_FAILURES + 1 < len(cases)


def test_the_family_that_explained_an_answer_is_asked_first(trial: JudgeTrial) -> None:
    def kernel(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        low = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
        return low * weight

    def wrong(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return kernel(x, weight, eps) * 1.01

    def ask(case: Case, call: Callable[..., Tensor]) -> tuple[int, Comparison]:
        before, scenario = _made(trial), single_call(case, label="a call")
        run = LocalRunner(call, trial.problem).run(scenario, trial.inputs, None)
        answers = Answers(trial, run)
        answers.wrong(reads_of(scenario, run)[0], closely=True)
        (found,) = answers.judgement(()).comparisons
        return _made(trial) - before, found

    first = trial.cases("numeric")[0]
    cases = [dataclasses.replace(first, seed=first.seed + n) for n in range(4)]
    found = [ask(case, kernel) for case in cases[:3]]
    assert [one.precision for _, one in found] == [Precision.MIXED] * 3
    assert all(one.passed for _, one in found)
    assert [made for made, _ in found][1:] == [2, 2]  # the family's alone, and whether it decides
    made, last = ask(cases[3], wrong)
    assert not last.passed
    assert made == 2
    # Whether a case decides is told by the family's truth, which its answers are held against.
    other, before = dataclasses.replace(first, seed=first.seed + 9), set(trial.truths.cache)
    assert not trial.comparing.ill_conditioned(other, trial.truths.first)
    (made_now,) = set(trial.truths.cache) - before
    assert made_now.endswith(Precision.MIXED)
