"""A line of a candidate's file is marked with the code of the check that claims its fault."""

from __future__ import annotations

from collections import Counter

import pytest

from cuassay.judge.diagnose.source_views import _CHECKS, source_views
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.machine import LaunchEvidence, MachineEvidence, MachineFault, Touch

CANDIDATE = Candidate(
    name="k",
    sources=(SourceFile(path="k.cu", text="__global__ void k() {\n}\n"),),
    entry_file="k.cu",
    entry_function="k",
)


def _codes(*kinds: str, severity: str = "wrong") -> list[tuple[str, str]]:
    """Return the class and the code of each mark that faults of these kinds make."""
    touch = Touch(what="read", ptx_line=2, file="k.cu", line=1, block=(0, 0, 0), thread=(0, 0, 0))
    faults = tuple(
        MachineFault(kind=kind, severity=severity, text=kind, touches=(touch,)) for kind in kinds
    )
    launch = LaunchEvidence(
        kernel="k", grid=(1, 1, 1), block=(32, 1, 1), target="sm_80", faults=faults
    )
    (view,) = source_views(CANDIDATE, [MachineEvidence(launches=(launch,))])
    return [(kind, code) for _, kind, code, _ in view.marks]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("invalid-free", "MEM101"),
        ("unordered", "RACE101"),
        ("missing-acquire-fence", "RACE101"),
        ("uninitialised", "INIT101"),
        ("deadlock", "SYNC101"),
    ],
)
def test_a_fault_has_the_code_of_its_check(kind: str, code: str) -> None:
    assert _codes(kind) == [("wrong", code)]


def test_lost_precision_is_advice() -> None:
    assert _codes("precision") == [("advice", "PREC101")]


def test_what_no_check_of_lines_claims_marks_none() -> None:
    assert _codes("refused-launch") == []
    assert _codes("race", severity="advice") == []


def test_each_kind_of_fault_has_one_check() -> None:
    counts = Counter(kind for check in _CHECKS for kind in check.kinds)
    assert set(counts.values()) == {1}
