"""benchmarks/operators_deck: rows become tables; a right kernel that is rejected is an alarm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import loaded


@pytest.fixture
def deck(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "operators_deck", "kernel_sets", "trials", "common")


def _row(deck: ModuleType, name: str, decision: str, seconds: float, **more: Any) -> Any:
    fields = {"operator": "topk", "language": "cuda", "model": "m", "theirs": True}
    return deck.Row(
        name=name, device="cuda", decision=decision, seconds=seconds, beside=1, **fields, **more
    )


def test_a_table_counts_verdicts_launches_and_mutants_beside_the_policy(deck: ModuleType) -> None:
    rows = [
        _row(deck, "a", "ACCEPTED", 12.0, made=4, judged=3, causes={"too long": 1}, mutants=20,
             killed=18, accepted=1, axes={"batch": 5, "n": 3}, peak_mib=700),
        _row(deck, "b", "REJECTED", 70.0, made=2, judged=2, mutants=4, killed=4, axes={"n": 9}),
        _row(deck, "c", "TIMEOUT", 240.0),
    ]  # fmt: skip
    found = deck.summary(rows)
    assert found["verdicts"] == {"ACCEPTED": 1, "REJECTED": 1, "TIMEOUT": 1}
    assert (found["median_s"], found["worst_s"], found["beyond 60 s"]) == (41.0, 70.0, 1)
    assert found["launches"] == {"made": 6, "judged": 5, "causes": {"too long": 1}}
    assert found["power"] == {"mutants": 24, "killed": 22, "accepted by the policy": 1}
    assert (found["peak_mib"], found["axes"]) == (700, {"batch": 5, "n": 9})
    assert found["kernels without a launch judged"] == 1


@pytest.mark.parametrize(("reading", "code"), [("right", 1), ("wrong", 0)])
def test_a_rejected_kernel_that_was_read_as_right_is_a_false_alarm(
    deck: ModuleType,
    reading: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = _row(deck, "a", "REJECTED", 9.0, diagnoses=("output-reused: kept",))
    (tmp_path / "rows-cpu.ndjson").write_text(json.dumps(asdict(row)) + "\n")
    readings = tmp_path / "readings.json"
    readings.write_text(json.dumps({"a": {"is": reading, "why": "one buffer for all calls"}}))
    monkeypatch.setattr(deck, "_READINGS", readings)
    monkeypatch.setenv("CUASSAY_RESULTS", str(tmp_path))
    assert deck.main(["--report", "--rows", str(tmp_path), "--device", "cpu"]) == code
    assert ("false alarms: a" in capsys.readouterr().out) == bool(code)
    (file,) = tmp_path.glob("operators-deck-*.json")
    kept = json.loads(file.read_text())["results"]["rows"]
    assert kept[0]["read"] == {"is": reading, "why": "one buffer for all calls"}


def test_a_run_knows_which_kernels_earlier_ones_judged(
    deck: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deck, "_KEPT", tmp_path / "results.json")
    assert deck.names_judged() == frozenset()
    rows = [{"name": "a", "decision": "REJECTED"}, {"name": "b", "decision": "TIMEOUT"}]
    (tmp_path / "results.json").write_text(json.dumps({"results": {"rows": rows}}))
    assert deck.names_judged() == {"a"}
