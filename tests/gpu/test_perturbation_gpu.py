"""Random pauses on a GPU: they are there, they bring races out, honest kernels do not notice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.zoo.manifest import HERE, PAIRS, Pair, load

from cuassay import build
from cuassay.checks.state.answers import placed
from cuassay.formats import load_candidate
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.case import Case
from cuassay.model.device import CUDA
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import StepDone
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from cuassay.sandbox.ran import Ran

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
SEEDS = range(8)


def pair(name: str) -> Pair:
    return next(p for p in PAIRS if p.name == name)


def repeats(path: Path, problem_name: str, folder: Path) -> tuple[JudgeTrial, Case, Ran]:
    """Run a candidate 64 times in each of eight variants of the pauses."""
    problem = load(problem_name)
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CUDA, root_seed=11
    )
    candidate = load_candidate(str(path), problem)
    built = build.load(candidate, problem, device=CUDA, folder=folder)
    # Wide enough for every warp, and every one of four blocks, to have a share in a row's sum.
    case = placed(trial.cases("numeric")[0], {"rows": 64, "hidden": 2048})
    steps = [Repeat(slot="a", count=64, load=Load.DELAYS, seed=seed) for seed in SEEDS]
    scenario = Scenario(
        label="pauses",
        cases=(case,),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r"),
            ReadResult(result="r"),
            *steps,
        ),
    )
    runner = LocalRunner(built.call, problem, device=CUDA, convention=candidate.convention)
    return trial, case, runner.run(scenario, trial.inputs, None)


def records(run: Ran) -> list[StepDone]:
    found = [record for record in run.result.records[3:] if isinstance(record, StepDone)]
    assert len(found) == len(SEEDS), run.result.records
    return found


def reports(run: Ran) -> list[Repeats]:
    found = [record.report for record in records(run)]
    assert all(isinstance(report, Repeats) for report in found), found
    return [report for report in found if isinstance(report, Repeats)]


def wrong_results(trial: JudgeTrial, case: Case, run: Ran) -> int:
    """Return how many different results of all variants are wrong."""
    outputs, wrong = len(trial.problem.outputs), 0
    for record in records(run):
        for start in range(0, len(record.items), outputs):
            compared = trial.compare(case, run, record.items[start : start + outputs])
            wrong += any(not c.passed for c in compared)
    return wrong


@pytest.mark.parametrize("name", ["cuda_missing_barrier", "cuda_barrier_one_short"])
def test_pauses_bring_out_a_missing_barrier_and_leave_its_twin_alone(
    name: str, tmp_path: Path
) -> None:
    planted = pair(name)
    trial, case, run = repeats(planted.bug, planted.problem, tmp_path / "bug")
    assert all(report.pauses for report in reports(run)), reports(run)
    assert wrong_results(trial, case, run) > 0
    trial, case, run = repeats(planted.twin, planted.problem, tmp_path / "twin")
    assert all(report.pauses for report in reports(run))
    assert wrong_results(trial, case, run) == 0


def test_triton_kernels_get_pauses_too(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    trial, case, run = repeats(HERE / "honest" / "rmsnorm_triton.py", "rmsnorm", tmp_path)
    for report in reports(run):
        assert report.pauses, report
        assert report.refused == ""
        assert report.calls >= 64
    assert wrong_results(trial, case, run) == 0
