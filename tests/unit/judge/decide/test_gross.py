"""A kernel whose plain call is wrong on every input is rejected by that alone, at `quick`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.judge.decide.gross import is_gross
from cuassay.model.jobs import Stop, TrialJob
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass, Severity, Skipped
from cuassay.model.verdict import Decision, Profile, Verdict
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate
from tests.zoo.manifest import load

_CHECKS = ("API002", "API001", "STATE001", "NUM001", "SHP001")
_KERNEL = """
import torch


def run(x, weight, eps):
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    y = (x.float() * rstd * weight.float()).to(x.dtype)
    {then}
"""
_GROSS = {
    "zeros": "return torch.zeros_like(y)",
    "another shape": "return y[:, :-1]",
    "always raises": "raise RuntimeError('never')",
    "the sign": "return -y",
}
_NOT_GROSS = {
    "right": "return y",
    "wrong at one size": "return y if x.shape[0] != 64 else torch.zeros_like(y)",
    "wrong on few rows": "return y if x.shape[0] > 20 else torch.zeros_like(y)",
    "right once in two calls": (
        "run.count = getattr(run, 'count', 0) + 1\n"
        "    return y if run.count % 2 else torch.zeros_like(y)"
    ),
}


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


def _judged(gate: Gate, then: str, folder: Path, *, fail_fast: bool | None = None) -> Verdict:
    path = folder / "kernel.py"
    path.write_text(_KERNEL.format(then=then))
    problem = load("rmsnorm")
    return gate.judge(problem, path, seed=7, only=_CHECKS, fail_fast=fail_fast).verdict


def _not_run(verdict: Verdict) -> list[str]:
    return [check.code for check in verdict.checks if isinstance(check.outcome, Skipped)]


@pytest.mark.parametrize("then", _GROSS.values(), ids=list(_GROSS))
def test_plain_calls_that_are_all_wrong_end_the_trial(
    gate: Gate, then: str, tmp_path: Path
) -> None:
    verdict = _judged(gate, then, tmp_path)
    assert verdict.decision is Decision.REJECTED
    failed = [check.code for check in verdict.checks if isinstance(check.outcome, Failed)]
    assert failed == ["NUM001"]
    assert _not_run(verdict) == ["API002", "API001", "STATE001", "SHP001"]
    reasons = {c.outcome.reason for c in verdict.checks if isinstance(c.outcome, Skipped)}
    assert all("--no-fail-fast" in reason for reason in reasons)
    assert not verdict.conditions  # what an acceptance would depend on


@pytest.mark.parametrize("then", _NOT_GROSS.values(), ids=list(_NOT_GROSS))
def test_one_right_plain_call_leaves_every_check(gate: Gate, then: str, tmp_path: Path) -> None:
    assert not _not_run(_judged(gate, then, tmp_path))


def test_the_other_checks_run_where_they_are_asked_for(gate: Gate, tmp_path: Path) -> None:
    verdict = _judged(gate, _GROSS["zeros"], tmp_path, fail_fast=False)
    assert verdict.decision is Decision.REJECTED
    assert not _not_run(verdict)


@pytest.mark.parametrize(
    ("findings", "scenarios", "clean", "gross"),
    [(1, 1, 0, False), (2, 1, 0, False), (3, 1, 0, True), (2, 2, 0, True), (3, 2, 1, False)],
)
def test_one_input_is_enough_where_several_outputs_are_wrong(
    findings: int, scenarios: int, clean: int, gross: bool
) -> None:
    """Three findings end a check: of a kernel with three outputs, on its first input."""
    one = Finding(
        code="NUM001", title="t", message="m", classes=(),
        finding_class=FindingClass.WRONG, severity=Severity.HIGH,
    )  # fmt: skip
    outcome = Failed(findings=(one,) * findings)
    report = CheckReport(
        code="NUM001", title="t", outcome=outcome, scenarios=scenarios, clean=clean
    )
    assert is_gross(report) is gross


@pytest.mark.parametrize(
    ("profile", "fail_fast", "stop"),
    [
        (Profile.QUICK, None, Stop.GROSS),
        (Profile.STANDARD, None, Stop.NEVER),
        (Profile.DEEP, None, Stop.NEVER),
        (Profile.STANDARD, True, Stop.FIRST),
        (Profile.QUICK, True, Stop.FIRST),
        (Profile.QUICK, False, Stop.NEVER),
    ],
)
def test_what_ends_a_trial_follows_from_profile_and_option(
    profile: Profile, fail_fast: bool | None, stop: Stop
) -> None:
    job = TrialJob(problem="rmsnorm", candidate="k.py", profile=profile, fail_fast=fail_fast)
    assert job.stop is stop


_GRAPH = "torch.cuda.CUDAGraph()\n    return y"


@pytest.mark.parametrize(
    ("then", "runs"),
    [
        (_GRAPH, False),
        (f"if x.shape[0] < 30: return y\n    {_GRAPH}", True),
        ("return y", True),
    ],
)
def test_a_kernel_whose_every_plain_call_needs_a_gpu_is_not_called_further_without_one(
    gate: Gate, then: str, runs: bool, tmp_path: Path
) -> None:
    verdict = _judged(gate, then, tmp_path)
    assert [check.code for check in verdict.checks] == (list(_CHECKS) if runs else ["BUILD001"])
    if not runs:
        assert verdict.decision is Decision.INCONCLUSIVE
        assert "needs an NVIDIA GPU" in verdict.reason
