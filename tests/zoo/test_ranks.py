"""Kernels that several ranks share: each planted bug is found by a check of ranks, no twin is.

The whole gate on them is `benchmarks/ranks.py`. Here the checks run in this process, and the ranks
in processes of their own. Of kernels in Triton, which each rank compiles, the first call is judged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay import build
from cuassay.checks.interface.inputs_unchanged import Api001
from cuassay.checks.numeric.values import Num001
from cuassay.checks.ranks.agreement import Rank002
from cuassay.checks.ranks.late import Rank001
from cuassay.formats import load_candidate
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding
from cuassay.model.steps import CallRanks
from tests.support.fake_trial import judged, run_one
from tests.support.ranked import findings, function_of, ranked, trial_of
from tests.zoo.ranks.faults import (
    FAULTS,
    FAULTS_OF_LATE_KERNELS,
    FAULTS_OF_TRITON,
    OPERATORS,
    TWINS,
    Fault,
)

CHECKS = (Rank002(), Rank001(), Api001(), Num001())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault) -> None:
    trial = trial_of(OPERATORS.get(fault.twin, fault.twin))
    with ranked(function_of(fault.text, fault.name), trial) as called:
        found = (one for check in CHECKS for one in findings(check, trial, called))
        wrong = next((one for one in found if one.condition == ""), None)
    assert wrong is not None
    assert "NameError" not in wrong.message, "the edit does not run"


@pytest.mark.parametrize("twin", sorted(path.stem for path in TWINS.glob("[!t]*.py")))
def test_a_twin_is_right(twin: str) -> None:
    trial = trial_of(OPERATORS.get(twin, twin))
    with ranked(function_of((TWINS / f"{twin}.py").read_text(), twin), trial) as called:
        found = [one for check in CHECKS for one in findings(check, trial, called)]
    assert not [one.message for one in found]


def first_findings(path: Path, twin: str, folder: Path) -> list[Finding]:
    """Return what the first call of two ranks shows of a kernel in Triton, without a GPU."""
    trial = trial_of(OPERATORS[twin])
    candidate = load_candidate(str(path), trial.problem)
    built = build.load(candidate, trial.problem, device=CPU, folder=folder)
    check = Rank002()
    scenario = next(check.propose(trial))
    with ranked(built.call, trial) as called:
        assert called.takes_group
        return list(judged(check, trial, scenario, run_one(trial, called, scenario)))


@pytest.mark.parametrize("twin", ["triton_flags", "triton_norm", "triton_push"])
def test_a_twin_in_triton_is_right(twin: str, tmp_path: Path) -> None:
    found = first_findings(TWINS / f"{twin}.py", twin, tmp_path)
    assert not [one.message for one in found]


@pytest.mark.parametrize("fault", FAULTS_OF_TRITON, ids=lambda fault: fault.name)
def test_a_planted_bug_in_triton_is_found(fault: Fault, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(fault.text)
    found = first_findings(path, fault.twin, tmp_path / "build")
    assert "the worst element's error is" in found[0].message


@pytest.mark.parametrize("fault", FAULTS_OF_LATE_KERNELS, ids=lambda fault: fault.name)
def test_a_rank_that_is_late_in_its_kernel_shows_what_it_reads(
    fault: Fault, tmp_path: Path
) -> None:
    trial = trial_of(OPERATORS[fault.twin])
    late = [
        scenario
        for scenario in Rank001().propose(trial)
        if scenario.cases[0].axes["ranks"] == 2
        and any(isinstance(step, CallRanks) and step.busy_ms for step in scenario.steps)
    ]
    shown = []
    for name, text in (("fault", fault.text), ("twin", (TWINS / f"{fault.twin}.py").read_text())):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        candidate = load_candidate(str(path), trial.problem)
        built = build.load(candidate, trial.problem, device=CPU, folder=tmp_path / name)
        with ranked(built.call, trial) as called:
            found = [
                one
                for scenario in late
                for one in judged(Rank001(), trial, scenario, run_one(trial, called, scenario))
            ]
        shown.append(len(found))
    assert shown[0]
    assert not shown[1]
