"""What a check says of a run is all that comes of it: the same run gives the same judgement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.checks.base import Run
from cuassay.checks.judgement import Answers, Judgement, is_wrong
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.values import Num001
from cuassay.checks.state.answers import Read, reads_of
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.precision import Precision
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import Comparison
from cuassay.sandbox.local import LocalRunner
from tests.support.fake_trial import FakeTrial, run_one, scaled_add

Kernel = Callable[[Tensor, Tensor, float], Tensor]
_PASSED = Comparison(output="y", passed=True, share=0.5)
_FAILED = Comparison(output="y", passed=False, share=3.0)
_ASIDE = Comparison(output="y", passed=True, share=0.0, undecided="rounding alone")


def _in_bfloat16(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm that rounds the normalized rows: in 16 bits beyond `strict`, within `mixed`."""
    wide = x.float()
    norm = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return ((wide * norm).bfloat16() * weight).to(x.dtype)


def _one_percent_off(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    norm = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (1.01 * x.float() * norm * weight.float()).to(x.dtype)


def _ran(kernel: Kernel, dtype: str = "float32") -> tuple[JudgeTrial, Scenario, Run]:
    problem = registry.get("rmsnorm", dtype=dtype)
    problem = dataclasses.replace(problem, precision=Precision.STRICT)
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )
    scenario = single_call(trial.cases("numeric")[0], label="a call")
    run = LocalRunner(kernel, problem).run(scenario, trial.inputs, None)
    return trial, scenario, run


@pytest.mark.parametrize("kernel", [_in_bfloat16, _one_percent_off])
def test_a_run_is_judged_alike_as_often_as_it_is_judged(kernel: Kernel) -> None:
    trial, scenario, run = _ran(kernel)
    before = (trial.comparing.graded, trial.lowered)
    judged = [Num001().judge(trial, scenario, run) for _ in range(3)]
    assert judged[0].findings
    assert judged[0].comparisons
    assert repr(judged[0]) == repr(judged[1]) == repr(judged[2])
    assert (trial.comparing.graded, trial.lowered) == before


def test_a_failure_tells_the_precision_where_it_is_asked_for_alone() -> None:
    trial, scenario, run = _ran(_in_bfloat16, "bfloat16")
    (plain,) = Num001().judge(trial, scenario, run).comparisons
    (graded,) = Num001().judge(trial, scenario, run, grade=True).comparisons
    assert plain.precision is Precision.STRICT
    assert graded.precision is Precision.MIXED
    assert dataclasses.replace(graded, precision=Precision.STRICT).share == plain.share
    assert not trial.comparing.graded
    trial.comparing.note(Judgement(comparisons=(graded,)))
    assert trial.comparing.graded


class _Grading(FakeTrial):
    """Notes which comparisons were to tell the precision, and returns what it is given."""

    returned: list[Comparison]
    graded: list[bool]

    def compare(self, *given: Any, grade: bool = False, **named: Any) -> tuple[Comparison, ...]:
        self.graded.append(grade)
        return (self.returned[len(self.graded) - 1],)


def _grading(*returned: Comparison) -> tuple[_Grading, Read, Run]:
    made = scaled_add()
    trial = _Grading(made.problem, made.reference)
    trial.returned, trial.graded = list(returned), []
    scenario = single_call(trial.cases("small")[0], label="a call")
    run = run_one(trial, trial.reference, scenario)
    return trial, reads_of(scenario, run)[0], run


def test_the_first_failure_alone_is_graded() -> None:
    trial, read, run = _grading(_PASSED, _ASIDE, _FAILED, _FAILED)
    answers = Answers(trial, run, grade=True)
    for _ in range(4):
        answers.compare(read.case, read.items)
    assert trial.graded == [True, True, True, False]


def test_all_that_is_compared_until_the_last_finding_is_part_of_the_judgement() -> None:
    wide = dataclasses.replace(_PASSED, precision=Precision.MIXED)
    trial, read, run = _grading(_PASSED, wide, wide, _FAILED)
    answers = Answers(trial, run)

    def findings() -> Any:
        outside = dataclasses.replace(read.case, in_domain=False)
        for case in (read.case, read.case, outside):
            assert answers.compare(case, read.items)[0].passed
        assert answers.first_wrong(read) is _FAILED
        yield from ()

    judgement = answers.judgement(findings())
    assert judgement.comparisons == (_PASSED, wide, wide, _FAILED)
    assert judgement.lowered == (read.case,)
    assert [is_wrong(one) for one in judgement.comparisons] == [False, False, False, True]


def test_a_judgement_decides_nothing_where_no_output_does() -> None:
    assert Judgement(comparisons=(_ASIDE, _ASIDE)).undecided == "rounding alone"
    assert not Judgement(comparisons=(_ASIDE, _PASSED)).undecided
    assert not Judgement().undecided


def test_an_answer_is_that_to_another_case_where_it_is_right_for_it() -> None:
    trial = scaled_add()
    first, second = trial.cases("small")[:2]
    scenario = single_call(first, label="a call")
    run = run_one(trial, trial.reference, scenario)
    read = dataclasses.replace(reads_of(scenario, run)[0], case=second)
    answers = Answers(trial, run)
    assert answers.answer_to(read, (second, first)) == first
    assert answers.answer_to(read, (second,)) is None
