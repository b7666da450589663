"""`make power` counts what was caught, missed and cried wolf, by failure class and by check."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from tests.zoo.manifest import HERE, PAIRS, Pair


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(HERE.parents[1] / "benchmarks"))
    return importlib.import_module("power"), importlib.import_module("gate_trials")


def pair(name: str) -> Pair:
    return next(pair for pair in PAIRS if pair.name == name)


def row(trials: ModuleType, kind: str, name: str, decision: str, *codes: str) -> object:
    return trials.Row(
        key=f"quick/{kind}/{name}",
        kind=kind,
        name=name,
        problem="",
        dtype="",
        profile="quick",
        seed=1,
        decision=decision,
        codes=list(codes),
        reason="",
        share=0.0,
        seconds=2.0,
        checks_s={"NUM001": 0.5},
    )


def test_counts_by_class_and_check(scripts: tuple[ModuleType, ModuleType]) -> None:
    power, trials = scripts
    pairs = [pair("memo_by_address"), pair("stale_running_max")]
    rows = [
        row(trials, "bug", "memo_by_address", "REJECTED", "STATE001"),
        row(trials, "twin", "memo_by_address", "REJECTED", "NUM001"),
        row(trials, "bug", "stale_running_max", "ACCEPTED"),
        row(trials, "twin", "stale_running_max", "ACCEPTED"),
    ]
    found = power.summary(pairs, rows, "quick")
    assert (found["bugs"], found["caught"], found["seconds"]) == (2, 1, 8.0)
    assert [missed["name"] for missed in found["missed"]] == ["stale_running_max"]
    assert [alarm["name"] for alarm in found["false_alarms"]] == ["memo_by_address"]
    assert found["classes"]["S1"] == {"caught": 1, "missed": 0, "false_alarms": 1, "seconds": 4.0}
    assert found["classes"]["N6"] == {"caught": 0, "missed": 1, "false_alarms": 0, "seconds": 4.0}
    assert found["checks"]["STATE001"]["caught"] == 1
    assert found["checks"]["NUM001"] == {
        "caught": 0,
        "missed": 1,
        "false_alarms": 1,
        "seconds": 2.0,
    }


def test_rejected_for_another_reason_is_missed(scripts: tuple[ModuleType, ModuleType]) -> None:
    power, trials = scripts
    by_chance = row(trials, "bug", "memo_by_address", "REJECTED", "DET001")
    assert not power.caught(pair("memo_by_address"), by_chance)


def test_every_pair_is_tried_in_every_profile(scripts: tuple[ModuleType, ModuleType]) -> None:
    power, _ = scripts
    pairs = power.chosen(None, "cpu")
    assert all(not pair.cuda for pair in pairs)
    keys = {trial.key for trial in power.trials(pairs, ("quick", "standard"), 3)}
    assert len(keys) == len(pairs) * 2 * 2 * 3
    with pytest.raises(SystemExit, match="no such pair"):
        power.chosen(["nothing"], "cpu")
