"""What a program that is trained may hear of a trial: a stage, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.verifier import Result, Status
from cuassay_adapters.reward import SHAPED, SPARSE
from cuassay_adapters.stages import Stage, kept_source, kernel_in, stage_of


def _result(status: Status, *codes: str) -> Result:
    findings = tuple(
        Finding(
            code=code,
            title="title",
            message="message",
            classes=(),
            finding_class=FindingClass.WRONG,
            severity=Severity.HIGH,
        )
        for code in codes
    )
    return Result(status=status, reason="", candidate="k", problem="p", findings=findings)


@pytest.mark.parametrize(
    ("result", "stage"),
    [
        (_result(Status.ACCEPTED), Stage.ACCEPTED),
        (_result(Status.INVALID), Stage.NOTHING),
        (_result(Status.INCONCLUSIVE), Stage.UNDECIDED),
        (_result(Status.REJECTED, "BUILD001"), Stage.NOT_BUILT),
        (_result(Status.REJECTED, "SHP001", "NUM001"), Stage.WRONG),
        (_result(Status.REJECTED, "RUN003"), Stage.WRONG),
        (_result(Status.REJECTED, "ALIAS001", "SHP001"), Stage.FRAGILE),
    ],
)
def test_stages(result: Result, stage: Stage) -> None:
    assert stage_of(result) is stage


def test_a_condition_is_no_stage() -> None:
    told = _result(Status.REJECTED, "NUM001", "SHP001")
    unsafe = dataclasses.replace(told.findings[0], finding_class=FindingClass.UNSAFE)
    assert stage_of(dataclasses.replace(told, findings=(unsafe, told.findings[1]))) is Stage.FRAGILE


def test_only_an_accepted_kernel_earns_the_whole_reward() -> None:
    assert set(SPARSE) == set(SHAPED) == set(Stage)
    assert {stage for stage in Stage if SPARSE[stage]} == {Stage.ACCEPTED}
    order = [Stage.NOTHING, Stage.NOT_BUILT, Stage.WRONG, Stage.FRAGILE, Stage.ACCEPTED]
    values = [SHAPED[stage] for stage in order]
    assert values == sorted(set(values))
    assert SHAPED[Stage.UNDECIDED] == 0.0  # running out of time earns nothing
    assert SHAPED[Stage.FRAGILE] < 0.5 * SHAPED[Stage.ACCEPTED]


def test_the_last_fenced_block_is_the_kernel() -> None:
    assert kernel_in("first\n```python\na = 1\n```\nbetter:\n```\nb = 2\n```\n") == "b = 2\n"
    assert kernel_in("def run(x): return x") == ""
    assert kernel_in("") == ""


def test_equal_sources_share_a_place(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    first = kept_source("kernel.py", "a = 1\n")
    assert first == kept_source("kernel.py", "a = 1\n")
    assert first.read_text() == "a = 1\n"
    assert kept_source("kernel.py", "b = 1\n").parent != first.parent
