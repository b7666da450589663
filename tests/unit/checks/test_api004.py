"""API004: a kernel that relies on what the problem's generator happens to keep is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay import api
from cuassay.model.outcome import Failed, Finding, Passed
from cuassay.model.verdict import Verdict
from tests.unit.contract.problems import ROTARY, rotary

_BUGS = {
    "row 0 of position_ids": ("position_ids[..., None]", "position_ids[:1][..., None]"),
    "positions counted, not read": (
        "position_ids[..., None]",
        "torch.arange(x.shape[1], device=x.device)[None, :, None]",
    ),
    "a scale that is always 2": ("* scale +", "* 2.0 +"),
}


def _judged(folder: Path, kernel: str) -> Verdict:
    rotary(folder)
    place = folder / "kernel.py"
    place.write_text(kernel)
    return api.check(str(place), problem=str(folder), profile="quick", device="cpu", seed=5)


def _outcome(verdict: Verdict) -> object:
    return next(report.outcome for report in verdict.checks if report.code == "API004")


@pytest.mark.parametrize("name", _BUGS)
def test_a_kernel_that_relies_on_a_fact_is_rejected_with_the_fact(
    tmp_path: Path, name: str
) -> None:
    old, new = _BUGS[name]
    verdict = _judged(tmp_path, ROTARY.replace(old, new))
    assert verdict.decision.value == "REJECTED"
    outcome = _outcome(verdict)
    assert isinstance(outcome, Failed)
    found: Finding = outcome.findings[0]
    assert "in the problem's own inputs" in found.message
    assert ("position_ids" in found.message) == ("position" in name)


def test_the_reference_passes(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, ROTARY)
    assert verdict.decision.value == "ACCEPTED"
    assert isinstance(_outcome(verdict), Passed)
