"""`cuassay run A --against B`: what it prints, its exit codes, what does not go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuassay.cli.main import main
from cuassay.engine import run as engine
from cuassay.model import serial
from cuassay.model.machine import EqualityEvidence

EQUAL = EqualityEvidence(elements=1200, equal=1200, seeds=2, prime=2147454839)
OTHER = EqualityEvidence(
    elements=1200, equal=1199, seeds=8, prime=2147454839, roots=True, output="y\x1b[31m", element=7
)


@pytest.fixture
def kernels(tmp_path: Path) -> list[str]:
    """Return the arguments that name two kernels and a problem."""
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text("//\n")
    return ["run", str(tmp_path / "a.cu"), "--problem", "p", "--against", str(tmp_path / "b.cu")]


def _answer(monkeypatch: pytest.MonkeyPatch, evidence: EqualityEvidence) -> list[Any]:
    jobs = []

    def execute(job: Any, progress: Any) -> dict[str, Any]:
        jobs.append(job)
        names = {"candidate": "a", "against": "b", "axes": {"rows": 4}}
        return {**names, "equality": serial.to_json(evidence)}

    monkeypatch.setattr(engine, "document", execute)
    return jobs


def test_equal_kernels(
    kernels: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _answer(monkeypatch, EQUAL)
    assert main(kernels) == 0
    assert jobs[0].against == kernels[-1]
    assert capsys.readouterr().out.splitlines() == [
        "a and b at rows = 4",
        "1,200 of 1,200 output elements (100 %) are the same expression in real numbers, by 2 "
        "choices of random residues",
        "a rational difference of degree d is missed with probability at most d / 2147454839 to "
        "the power 2 an element (2.2e-07 for d = 1,000,000)",
    ]


def test_another_expression_asks_for_a_second_look(
    kernels: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answer(monkeypatch, OTHER)
    assert main(kernels) == 3
    out = capsys.readouterr().out
    assert "1,199 of 1,200 output elements (99.92 %)" in out
    assert "first other one: element 7 of output 'y'" in out
    assert "seeds x d / 2147454839 an element (3.7e-03 for d = 1,000,000)" in out


def test_json(
    kernels: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answer(monkeypatch, OTHER)
    assert main([*kernels, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 3
    assert document["equality"]["equal"] == 1199


@pytest.mark.parametrize("extra", [["--trace"], ["--record", "f.safetensors"]])
def test_what_does_not_go_with_a_comparison(
    kernels: list[str], extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*kernels, *extra]) == 2
    assert "--against compares two candidates" in capsys.readouterr().err
