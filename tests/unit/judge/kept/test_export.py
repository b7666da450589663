"""A finding becomes a program that needs torch alone, fails, and passes once repaired."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.checks.numeric.common import single_call
from cuassay.errors import UsageError
from cuassay.formats import load_candidate
from cuassay.formats.execute import load_reference
from cuassay.judge.kept.export import export
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Autograd, Call, Scenario
from cuassay.model.steps import ReadState
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.nursery import Nursery
from tests.zoo.manifest import PAIRS, load

_PAIR = next(pair for pair in PAIRS if pair.name == "gamma_ignored")


@pytest.fixture(scope="module")
def trial() -> JudgeTrial:
    """Return a trial of rmsnorm."""
    problem = load(_PAIR.problem)
    reference = load_reference(problem)
    return open_trial(problem, reference, profile=Profile.QUICK, device=CPU, root_seed=4)


def _candidate(trial: JudgeTrial) -> Candidate:
    return load_candidate(str(_PAIR.bug), trial.problem)


def _finding(scenario: Scenario) -> Finding:
    return Finding(
        code="NUM001",
        title="Numerical parity",
        message='an "evil" message\n"""; import os',
        classes=(),
        finding_class=FindingClass.WRONG,
        severity=Severity.CRITICAL,
        scenario=scenario,
        id="F1",
    )


def _run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(file)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "y: relative error"),
        ("\n_run = run\ndef run(*a):\n    return _run(*a)[1:]\n", "y has shape"),
    ],
)
def test_the_program_fails_until_the_kernel_is_repaired(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path, line: str, said: str
) -> None:
    source = tmp_path / _PAIR.bug.name
    source.write_text(_PAIR.bug.read_text() + line)
    candidate = load_candidate(str(source), trial.problem)
    scenario = single_call(trial.cases("numeric")[0], label="numbers")
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        run = runner(scenario)
        place = tmp_path / "repro.py"
        files = export(trial, candidate, _finding(scenario), run, place)
    assert files[0] == place
    failed = _run(place)
    assert failed.returncode == 1
    assert f"AssertionError: {said}" in failed.stderr
    kernel = tmp_path / "repro_kernel" / _PAIR.bug.name
    kernel.write_text(_PAIR.twin.read_text())
    repaired = _run(place)
    assert repaired.stdout == "no fault shown\n", repaired.stderr


def test_a_call_is_made_from_the_thread_and_in_the_mode_that_were_wrong(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    place = tmp_path / "kernel.py"
    place.write_text(
        "import threading, torch\n\n"
        "def run(x, weight, eps):\n"
        "    main = threading.current_thread() is threading.main_thread()\n"
        "    right = main or not torch.is_inference_mode_enabled() or not x.requires_grad\n"
        "    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)\n"
        "    return (x.float() * rstd * weight.float() * right).to(x.dtype)\n"
    )
    candidate = load_candidate(str(place), trial.problem)
    plain = single_call(trial.cases("numeric")[0], label="numbers")
    steps = tuple(
        dataclasses.replace(step, thread=True, gradients=True, autograd=Autograd.INFERENCE)
        if isinstance(step, Call)
        else step
        for step in plain.steps
    )
    scenario = dataclasses.replace(plain, steps=steps)
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        for one, code in ((plain, 0), (scenario, 1)):
            program = tmp_path / f"repro_{code}.py"
            export(trial, candidate, _finding(one), runner(one), program)
            ended = _run(program)
            assert ended.returncode == code, ended.stderr
            assert code == 0 or "AssertionError: y: relative error" in ended.stderr


def test_a_program_calls_on_tensors_that_were_made_in_inference_mode(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    place = tmp_path / "kernel.py"
    place.write_text(
        "import torch\n\n"
        "def run(x, weight, eps):\n"
        "    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)\n"
        "    right = not (x.is_inference() and weight.is_inference())\n"
        "    return (x.float() * rstd * weight.float() * right).to(x.dtype)\n"
    )
    candidate = load_candidate(str(place), trial.problem)
    plain = single_call(trial.cases("numeric")[0], label="numbers")
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        for mode, code in ((Autograd.OFF, 0), (Autograd.INFERENCE, 1)):
            steps = tuple(
                dataclasses.replace(step, autograd=mode) if isinstance(step, Call) else step
                for step in plain.steps
            )
            scenario = dataclasses.replace(plain, steps=steps)
            program = tmp_path / f"repro_{code}.py"
            export(trial, candidate, _finding(scenario), runner(scenario), program)
            ended = _run(program)
            assert ended.returncode == code, ended.stderr


def test_a_program_that_cannot_run_says_so_and_ends_with_77(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    """A kernel that does not load, and a call that raises for a reason of its own, are no fault."""
    scenario = single_call(trial.cases("numeric")[0], label="numbers")
    candidate = _candidate(trial)
    place = tmp_path / "repro.py"
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        export(trial, candidate, _finding(scenario), runner(scenario), place)
    assert place.read_text().startswith('"""Needs torch. ')
    kernel = tmp_path / "repro_kernel" / _PAIR.bug.name
    for text, said in (
        ("import a_package_that_is_not_there", "cannot run here: the kernel does not load: "),
        (
            f"def {candidate.entry_function}(*given): raise RuntimeError('busy')",
            "RuntimeError: busy",
        ),
    ):
        kernel.write_text(text)
        ended = _run(place)
        assert ended.returncode == 77
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_triton_kernel_runs_without_a_gpu_and_a_race_may_not_show(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "kernel.py"
    file.write_text(_TRITON)
    candidate = load_candidate(str(file), trial.problem)
    scenario = single_call(trial.cases("small")[0], label="numbers")
    finding = dataclasses.replace(
        _finding(scenario), cause=Cause.RACE, reproduce="cuassay replay R/F1"
    )
    place = tmp_path / "repro.py"
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as runner:
        export(trial, candidate, finding, runner(scenario), place)
    text = place.read_text()
    assert text.startswith('"""Needs torch and triton. ')
    assert "One run may not show this fault" in text
    assert "`cuassay replay R/F1` executes the kernel in cuassay's PTX machine" in text
    ended = _run(place)
    assert ended.returncode == 1, ended.stderr
    assert "AssertionError: y: relative error" in ended.stderr


_TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def run(x, weight, eps):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
"""


def test_what_torch_alone_cannot_do_is_said(
    trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    scenario = Scenario(label="state", cases=trial.cases("small")[:1], steps=(ReadState(),))
    with Executor(trial, _candidate(trial), device=CPU, nursery=nursery, spares=0) as runner:
        run = runner(scenario)
    with pytest.raises(UsageError, match="F1 cannot be exported: ReadState needs cuassay"):
        export(trial, _candidate(trial), _finding(scenario), run, tmp_path / "r.py")
