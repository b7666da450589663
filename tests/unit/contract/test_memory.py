"""How much memory a case takes is known before it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.contract.accept import Acceptor, own_case
from cuassay.formats.execute import load_reference
from cuassay.judge import trial as judge_trial
from cuassay.model.problem import Problem
from tests.unit.contract.problems import foreign, trial_of

_SCORES = """def run(x):
    return (x @ x.mT).softmax(-1) @ x
"""


def _attention(folder: Path) -> Problem:
    return foreign(
        folder,
        _SCORES,
        axes=("rows", "cols"),
        inputs={"x": (("rows", "cols"), "float32")},
        output=("rows", "cols"),
        sizes=({"rows": 64, "cols": 16}, {"rows": 256, "cols": 16}),
    )


def test_intermediates_count(tmp_path: Path) -> None:
    problem = _attention(tmp_path)
    acceptor = Acceptor(problem, load_reference(problem), device="cpu")
    rows = 1 << 17  # scores of 2^34 elements: nothing of it is made
    case = own_case(problem, {"rows": rows, "cols": 16}, seed=1, label="")
    assert acceptor.truth_bytes(case) >= 8 * rows * rows
    small = own_case(problem, {"rows": 64, "cols": 16}, seed=1, label="")
    assert acceptor.truth_bytes(small) < 1 << 20


def test_cases_without_room_are_not_planned_and_one_always_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(_attention(tmp_path))
    numeric = trial.cases("numeric")
    assert {case.axes["rows"] for case in numeric} == {64, 256}
    monkeypatch.setattr(trial, "_device", "cuda")
    monkeypatch.setattr(judge_trial, "room_bytes", lambda gib: 1 << 20)
    kept = trial._within_memory("numeric", numeric)
    assert {case.axes["rows"] for case in kept} == {64}
    monkeypatch.setattr(judge_trial, "room_bytes", lambda gib: 1)
    assert len(trial._within_memory("numeric", numeric)) == 1
    assert trial._within_memory("growth", numeric) == ()
