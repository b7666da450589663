"""What the measurement of attacks makes of heads, verdicts and rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import loaded


@pytest.fixture
def attacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "attacks")


def row(attacks: ModuleType, fate: str, kind: str = "sizes", name: str = "one") -> Any:
    return attacks.Row(
        name=name,
        problem="rmsnorm",
        kind=kind,
        wrong="the tail",
        profile="quick",
        device="cpu",
        decision="",
        fate=fate,
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("decision", "conditions", "fate"),
    [
        ("REJECTED", [], "rejected"),
        ("ACCEPTED", [], "through"),
        ("ACCEPTED", ["layouts"], "through"),
        ("ACCEPTED", ["layouts", "shapes"], "named"),
        ("INCONCLUSIVE", ["shapes"], "undecided"),
        ("TIMEOUT", [], "undecided"),
        ("ERROR", [], "not run"),
    ],
)
def test_what_becomes_of_an_attack(
    attacks: ModuleType, decision: str, conditions: list[str], fate: str
) -> None:
    assert attacks.fate(decision, conditions, frozenset({"shapes", "sizes"})) == fate


def test_the_share_counts_what_was_judged(attacks: ModuleType) -> None:
    fates = ("through", "rejected", "named", "undecided", "not run")
    rows = [row(attacks, fate, name=fate) for fate in fates]
    rows.append(row(attacks, "through", "timing", "b"))
    found = attacks.summary(rows)
    assert (found["attacks"], found["share_through"]) == (5, 0.4)
    assert found["classes"]["sizes"]["through"] == 1
    assert found["through"] == {"through": "the tail", "b": "the tail"}
    assert attacks.summary([])["share_through"] is None


def test_every_attack_has_a_head_and_all_classes_are_there(attacks: ModuleType) -> None:
    found = [attacks.read_attack(path) for path in sorted(attacks.ATTACKS.glob("*.py"))]
    assert len(found) >= 40
    assert len({one.problem for one in found}) >= 10
    assert {one.kind for one in found} == set(attacks.CLASSES)


def test_a_file_without_a_head_is_refused(attacks: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("# problem: rmsnorm\n# class: luck\n# wrong: all\n")
    with pytest.raises(SystemExit, match="a known class"):
        attacks.read_attack(tmp_path / "one.py")
