"""A failed benchmark rule: what truth says of the same call, and what a missing tool does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, cast

import pytest
import torch

from cuassay.errors import MissingToolError
from cuassay.formats.execute import LoadedReference
from cuassay.formats.native.declaration import problem, tensor
from cuassay.judge.decide import benchmark_rule
from cuassay.judge.decide.control import Control
from cuassay.judge.decide.failed_rule import RuleAnswer, answer_to_rule
from cuassay.judge.trial import open_trial
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.problem import Problem, Tolerance
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from cuassay.sandbox.ran import Ran

Kernel = Callable[[torch.Tensor], torch.Tensor]


_Matrix = Annotated[torch.Tensor, tensor("float32", "rows", "columns")]


@problem(axes={"rows": (1, 64), "columns": (1, 64)}, workloads=[{"rows": 4, "columns": 8}])
def doubled(
    x: _Matrix,
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """Twice the input."""
    return x * 2.0


@problem(axes={"rows": (1, 64), "columns": (1, 64)}, workloads=[{"rows": 4, "columns": 8}])
def shifted(
    x: _Matrix,
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """The input, rounded as its sum with 32 is in bfloat16: by up to 0.06."""
    return (x + 32.0).to(torch.bfloat16).to(torch.float32) - 32.0


PROBLEM: Problem = vars(doubled)["__cuassay_problem__"]
SHIFTED: Problem = vars(shifted)["__cuassay_problem__"]


class _NothingShared:
    async def shares(self, *about: object) -> bool:
        return False


def _answer(
    kernel: Kernel, problem: Problem = PROBLEM, reference_call: Kernel = doubled
) -> RuleAnswer:
    reference = LoadedReference(call=reference_call, generator=None)
    trial = open_trial(problem, reference, profile=Profile.QUICK, device=CPU, root_seed=3)

    def run(scenario: Scenario) -> Ran:
        return LocalRunner(kernel, trial.problem).run(scenario, trial.inputs, None)

    rule = benchmark_rule.evaluate(trial, run)
    assert rule is not None
    assert rule.accepted is False
    control = cast(Control, _NothingShared())
    return answer_to_rule(trial, cast(Any, run), control, rule, name=lambda finding: finding)


def _raises(error: Exception) -> Kernel:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        raise error

    return kernel


@pytest.mark.parametrize(
    "kernel", [lambda x: x * 3.0, _raises(ValueError("no size of mine"))], ids=["wrong", "raises"]
)
def test_a_call_that_is_wrong_or_does_not_end_rejects(kernel: Kernel) -> None:
    found = _answer(kernel).findings
    assert [type(one) for one in found[:1]] == [Finding]
    assert found[0].finding_class is FindingClass.WRONG


def test_a_call_that_lacks_a_tool_decides_nothing() -> None:
    said = _answer(_raises(MissingToolError("the candidate needs an NVIDIA GPU")))
    assert said.findings == ()
    assert said.condition == ""
    assert "needs an NVIDIA GPU" in said.undecided


def test_a_right_answer_beyond_the_rule_is_a_condition_where_somebody_stated_the_rule() -> None:
    workloads = tuple(replace(one, tolerance=Tolerance()) for one in SHIFTED.workloads)
    stated = replace(SHIFTED, workloads=workloads)
    said = _answer(lambda x: x.clone(), stated, shifted)
    assert said.condition.startswith("benchmark: the problem's own rule fails at workload")
    assert _answer(lambda x: x.clone(), SHIFTED, shifted) == RuleAnswer()
