"""A trial from job to verdict: where its seconds go, and stopping at the first wrong result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.model.events import DecisionReached, Event
from cuassay.model.outcome import Skipped
from cuassay.model.verdict import Decision, Lane, Verdict
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate
from tests.zoo.manifest import PAIRS, load

_CHECKS = ("NUM001", "SHP001")
_PAIR = next(pair for pair in PAIRS if pair.name == "eps_dropped")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


def _judged(
    gate: Gate,
    path: Path,
    *,
    seed: int = 5,
    fail_fast: bool = False,
    events: list[Event] | None = None,
) -> Verdict:
    said = [] if events is None else events
    problem = load(_PAIR.problem)
    return gate.judge(
        problem, path, seed=seed, only=_CHECKS, fail_fast=fail_fast, emit=said.append
    ).verdict


def test_fail_fast_stops_at_the_first_wrong_result(gate: Gate) -> None:
    events: list[Event] = []
    verdict = _judged(gate, _PAIR.bug, fail_fast=True, events=events)
    assert verdict.decision is Decision.REJECTED
    first, rest = verdict.checks
    assert (first.code, rest.code) == _CHECKS
    assert isinstance(rest.outcome, Skipped)
    assert "--fail-fast" in rest.outcome.reason
    (told,) = [event for event in events if isinstance(event, DecisionReached)]
    assert (told.decision, told.reason) == (verdict.decision, verdict.reason)


def test_fail_fast_leaves_a_right_kernel_every_check(gate: Gate) -> None:
    verdict = _judged(gate, _PAIR.twin, fail_fast=True)
    assert not any(isinstance(check.outcome, Skipped) for check in verdict.checks)


def test_the_timeline_has_every_check_and_what_it_waited_for(gate: Gate) -> None:
    verdict = _judged(gate, _PAIR.bug, seed=6)  # truths of other seeds are kept
    spans = {(span.lane, span.what): span for span in verdict.timeline}
    check = spans[Lane.JUDGE, "NUM001"]
    inside = [s for s in verdict.timeline if s.lane is Lane.CANDIDATE]
    assert any(check.begin_s <= s.begin_s <= s.end_s <= check.end_s for s in inside)
    assert {Lane.TRUTH, Lane.COMPARE, Lane.CANDIDATE} <= {span.lane for span in verdict.timeline}
    assert all(span.begin_s <= span.end_s for span in verdict.timeline)


def test_a_judge_loads_where_ptxsan_is_not_installed() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('ptxsan', 'numba', 'llvmlite', 'z3'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import cuassay.judge.verbs\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
