"""`cuassay prove`: what it prints, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.engine import run as engine
from cuassay.model import serial
from cuassay.model.proofs import CallProof, LaunchProof, ProofAnswer, ProofEvidence

PROVED = LaunchProof(
    kernel="scale", answer=ProofAnswer.PROVED, law=("grid (ceil(n / 256), 1, 1)",), accesses=2,
    discharged={"intervals": 3}, limit_elements=1 << 31, seconds=0.5, solver_s=0.25,
)  # fmt: skip
REFUTED = LaunchProof(
    kernel="scale", answer=ProofAnswer.REFUTED, sizes={"n": 7}, block=(0, 0, 0), thread=(7, 0, 0),
    reason="reads 4 bytes\x1b[31m beyond its end", file="k.cu", line=3, ptx_line=40,
)  # fmt: skip
UNKNOWN = LaunchProof(
    kernel="scale", answer=ProofAnswer.UNKNOWN, reason="'wgmma' is not followed", ptx_line=9,
    suspects=({"n": 3},),
)  # fmt: skip


def _call(*launches: LaunchProof) -> CallProof:
    return CallProof(scope="n from 1", fitted=40, confirmed=20, launches=launches)


def _run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *calls: CallProof,
    options: tuple[str, ...] = (),
) -> int:
    (tmp_path / "k.cu").write_text("//\n")
    evidence = ProofEvidence(calls=calls)

    def prove(job: Any, *, progress: Any) -> dict[str, Any]:
        assert job.problem == "p"
        return {
            "candidate": "k", "problem": "p", "sizes_recorded": 60,
            "proof": serial.to_json(evidence), "answer": str(evidence.answer),
        }  # fmt: skip

    monkeypatch.setattr(engine, "prove", prove)
    return main(["prove", str(tmp_path / "k.cu"), "--problem", "p", *options])


def test_a_proof_names_its_scope_its_law_and_what_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED)) == 0
    out = capsys.readouterr().out
    for text in (
        "n from 1", "fitted to 40 calls, confirmed by 20 others", "ceil(n / 256)",
        "2 accesses in bounds and aligned", "PROVED: every launch stays within its memory",
        "fewer than 2,147,483,648 elements", "trusted: the law above",
    ):  # fmt: skip
        assert text in out


def test_a_refutation_names_sizes_thread_and_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED, REFUTED)) == 1
    out = capsys.readouterr().out
    assert "refuted at n=7, block (0, 0, 0), thread (7, 0, 0)" in out
    assert "k.cu:3: reads 4 bytes" in out
    assert "\x1b" not in out


def test_one_launch_that_is_not_proved_leaves_the_whole_unproved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(PROVED, UNKNOWN)) == 3
    out = capsys.readouterr().out
    assert "not proved: 'wgmma' is not followed (PTX line 9)" in out
    assert "PROVED: every" not in out


def test_nothing_recorded_is_nothing_proved() -> None:
    assert ProofEvidence().answer is ProofAnswer.UNKNOWN


def test_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, tmp_path, _call(REFUTED), options=("--json",)) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == "refuted"
    assert document["exit_code"] == 1
    assert document["proof"]["calls"][0]["launches"][0]["sizes"] == {"n": 7}
