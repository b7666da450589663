"""The benchmark's own rule judges a kernel as the benchmark would: in a process of its own."""

from __future__ import annotations

from typing import Annotated

import torch

from cuassay.formats.execute import LoadedReference
from cuassay.formats.native.declaration import problem, tensor
from cuassay.judge.decide import benchmark_rule
from cuassay.judge.trial import open_trial
from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from cuassay.sandbox.ran import Ran

_Matrix = Annotated[torch.Tensor, tensor("float32", "rows", "columns")]


@problem(axes={"rows": (1, 64), "columns": (1, 64)}, workloads=[{"rows": 4, "columns": 8}])
def doubled(
    x: _Matrix,
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """Twice the input."""
    return x * 2.0


PROBLEM: Problem = vars(doubled)["__cuassay_problem__"]


class _Remembers:
    """Answers every call with the answer to the first one."""

    def __init__(self) -> None:
        self.first: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.first is None:
            self.first = x * 2.0
        return self.first


def _evaluated(make: type) -> tuple[bool | None, list[bool]]:
    """Return what the rule says of a kernel whose process served other calls, and the runs."""
    reference = LoadedReference(call=doubled, generator=None)
    trial = open_trial(PROBLEM, reference, profile=Profile.QUICK, device=CPU, root_seed=3)
    used = make()
    used(torch.zeros(2, 3))
    runs = []

    def run(scenario: Scenario) -> Ran:
        runs.append(scenario.fresh)
        kernel = make() if scenario.fresh else used
        return LocalRunner(kernel, trial.problem).run(scenario, trial.inputs, None)

    rule = benchmark_rule.evaluate(trial, run)
    assert rule is not None
    return rule.accepted, runs


def test_a_kernel_that_an_earlier_call_spoiled_is_accepted_where_the_benchmark_accepts_it() -> None:
    assert _evaluated(_Remembers) == (True, [False, True])


def test_a_kernel_that_is_right_is_run_once() -> None:
    class Right(_Remembers):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2.0

    assert _evaluated(Right) == (True, [False])


def test_a_kernel_that_is_wrong_by_itself_stays_rejected() -> None:
    class Wrong(_Remembers):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3.0

    assert _evaluated(Wrong) == (False, [False, True])
