"""Kernels that refuse every size but those of a workload that is too large for most checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuassay.formats import load_problem
from cuassay.judge.decide.refused_sizes import follow_refused_sizes
from cuassay.judge.domain import Lesson, OwnCasesAlone
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.scenario import Scenario
from cuassay.model.trace import StepRaised
from tests.support import foreign, trees
from tests.support.fake_trial import problem, tensor
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_TEXT = foreign.KERNELBENCH.replace("batch_size = 16", "batch_size = 12_288")
_FIXED = foreign.MODEL_NEW.replace(
    "        return", "        assert x.shape[0] == 12_288, x.shape\n        return"
)
_LAST = "made = self.bn(self.linear(x)) + self.bias\n        made[-1] = 0\n        return made"


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "accepted", "alone"),
    [
        (_FIXED, True, True),
        (_FIXED.replace("return self.bn(self.linear(x)) + self.bias", _LAST), False, True),
        (foreign.MODEL_NEW, True, False),
    ],
)
def test_a_kernel_is_judged_at_the_only_size_that_it_takes(
    tmp_path: Path, gate: Gate, text: str, accepted: bool, alone: bool
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "3_Large.py", _TEXT)))
    file = trees.write(tmp_path / f"kernel{int(accepted)}{int(alone)}.py", text)
    judged = gate.judge(problem, file, seed=11, only=("NUM001", "SHP001", "API003"))
    assert judged.accepted == accepted, str(judged)
    assert bool(judged.codes) == (not accepted)
    said = [one for one in judged.verdict.conditions if one.startswith("shapes:")]
    assert said == (["shapes: only the sizes of its workloads (batch_size in {12288})"] * alone)
    tried = {entry.axis: entry.values for entry in judged.verdict.coverage}
    assert (tried["batch_size"] == (12_288,)) == alone


_SMALL = Case(label="small", axes={"rows": 4}, seed=1)
_PROBLEM = problem(
    "copy",
    axes=[VarAxis(name="rows")],
    inputs=[tensor("x", "rows")],
    outputs=[tensor("y", "rows")],
    workloads=[{"rows": 1 << 20}],
)


@dataclass
class _Trial:
    """A trial that has room for a call of its workload, and for its truth if `has_truth`."""

    has_truth: bool
    learnt: list[Lesson]
    problem: Problem = _PROBLEM
    device: Device = CPU

    @property
    def planned(self) -> SimpleNamespace:
        return SimpleNamespace(learning=SimpleNamespace(replan=self.learnt.append))

    def cases(self, purpose: str) -> tuple[Case, ...]:
        own = Case(label="own", axes={"rows": 1 << 20}, seed=2, benchmark=True, workload="0")
        return (_SMALL,) if purpose == "small" else (own,) * self.has_truth

    def has_room(self, case: Case, *, truth: bool = True) -> bool:
        return self.has_truth or not truth

    def seed(self, *path: object) -> int:
        return 3


@pytest.mark.parametrize(
    ("refuses", "has_truth", "expected"),
    [
        ((True, True), False, [OwnCasesAlone()]),
        ((True, True), True, [OwnCasesAlone()]),
        ((True, False), False, []),
        ((False, True), False, []),
    ],
)
def test_a_kernel_that_refuses_its_workload_too_is_judged_by_that_refusal(
    refuses: tuple[bool, bool], has_truth: bool, expected: list[Lesson]
) -> None:
    """The workload may be too large for its truth: that a call raises needs none."""
    learnt: list[Lesson] = []

    def run(scenario: Scenario) -> object:
        refused = refuses[bool(scenario.cases[0].benchmark)]
        raised = (StepRaised(index=1, exception="TypeError", message="m"),) if refused else ()
        return SimpleNamespace(result=SimpleNamespace(records=raised))

    follow_refused_sizes(_Trial(has_truth, learnt), run)  # type: ignore[arg-type]
    assert learnt == expected
