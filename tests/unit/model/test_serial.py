"""Model values survive JSON; what does not fit is refused with one clear error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.audit import AuditResult
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Domain, Index, Real
from cuassay.model.events import CheckFinished, EngineStopped, Event
from cuassay.model.outcome import (
    CheckReport,
    Failed,
    Finding,
    FindingClass,
    Growth,
    GrowthPoint,
    Inconclusive,
    Outcome,
    Severity,
    Skipped,
)
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Scenario, Step
from tests.support import audits

_SCALARS = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False))
_VALUES = st.one_of(_SCALARS, st.text(max_size=8), st.lists(_SCALARS, max_size=4).map(tuple))
_FILLS = st.builds(
    Fill, kind=st.text(max_size=8), parameters=st.dictionaries(st.text(max_size=4), _VALUES)
)
_CASES = st.builds(
    Case,
    label=st.text(max_size=12),
    axes=st.dictionaries(st.text(max_size=4), st.integers(0, 2**40)),
    fills=st.dictionaries(st.text(max_size=4), _FILLS),
    scalars=st.dictionaries(st.text(max_size=4), _SCALARS),
    seed=st.integers(0, 2**63 - 1),
    generator=st.booleans(),
    workload=st.none() | st.text(max_size=4),
)


@given(st.lists(_CASES, max_size=3))
def test_scenarios_survive(cases: list[Case]) -> None:
    steps: tuple[Step, ...] = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="r", poison=Poison.NEGATED),
        ReadResult(result="r"),
    )
    scenario = Scenario(label="x", cases=tuple(cases), steps=steps, timeout_s=1.5)
    assert serial.loads(Scenario, serial.dumps(scenario)) == scenario


def test_findings_survive_with_non_finite_numbers() -> None:
    growth = Growth(
        axis="n",
        points=(GrowthPoint(length=4, error=math.inf, trusted=0.0),),
        exponent=1.0,
        target=10,
        projected=math.inf,
        trusted_exponent=0.0,
    )
    finding = Finding(
        code="NUM001",
        title="t",
        message="m",
        classes=("N1",),
        finding_class=FindingClass.WRONG,
        severity=Severity.HIGH,
        measured=math.nan,
        allowed=6.0,
        growth=growth,
    )
    back = serial.loads(Finding, serial.dumps(finding))
    assert math.isnan(back.measured)
    assert back.growth == growth


@pytest.mark.parametrize(
    "outcome",
    [Inconclusive(reason="r"), Skipped(reason="s", applicable=False), Failed(findings=())],
)
def test_unions_carry_their_type(outcome: Outcome) -> None:
    event = CheckFinished(report=CheckReport(code="A", title="b", outcome=outcome))
    assert serial.loads(Event, serial.dumps(event)) == event


def test_domains_and_stops_survive() -> None:
    for domain in (Real(low=-1.0), Real(low=-1, high=2), Index(axis="vocab", sentinels=(-1,))):
        assert serial.loads(Domain, serial.dumps(domain)) == domain
    stop = EngineStopped(exit_code=2, message="no")
    assert serial.loads(Event, serial.dumps(stop)) == stop


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Case, "{", "not valid JSON"),
        (Case, "[]", "expected a JSON object"),
        (Case, '{"label": "x"}', "incomplete"),
        (Case, '{"label": "x", "axes": {}, "sede": 1}', "no field 'sede'"),
        (Case, '{"label": 3, "axes": {}}', "expected str"),
        (Poison, '"nann"', "one of"),
        (Outcome, '{"type": "Pass"}', "expected one of"),
        (tuple[int, ...], "3", "JSON array"),
        (tuple[int, int], "[1]", "expected 2 items"),
    ],
)
def test_misfits_are_refused(kind: Any, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        serial.loads(kind, text)


def test_optional_paths_survive() -> None:
    candidate = Candidate(
        name="a", sources=(), entry_file="k.py", entry_function="run", origin=Path("/a/k.py")
    )
    assert serial.loads(Candidate, serial.dumps(candidate)) == candidate


def test_a_foreign_object_is_a_bug_not_a_usage_error() -> None:
    with pytest.raises(TypeError, match="not a model value"):
        serial.dumps(object())
    assert serial.to_json(Path("a/b")) == "a/b"


def test_an_enum_that_may_be_missing_comes_back() -> None:
    for result in (audits.result(0), audits.result(0, verdict=None)):
        assert serial.loads(AuditResult, serial.dumps(result)) == result
