"""What the measurement of attacks makes of heads, verdicts and rows."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import loaded

_HEAD = "# problem: rmsnorm\n# class: values\n# wrong: the sign\n# named: sizes shapes\n"


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
    ("decision", "conditions", "reach", "fate"),
    [
        ("REJECTED", [], [], "rejected"),
        ("ACCEPTED", [], [], "through"),
        ("ACCEPTED", ["layouts"], [], "through"),
        ("ACCEPTED", ["layouts", "shapes"], ["hidden=300"], "named"),
        ("ACCEPTED", ["sizes"], ["rows=300", "hidden=256"], "named"),
        ("ACCEPTED", ["sizes"], ["rows=1", "hidden=257"], "through"),
        ("INCONCLUSIVE", ["shapes"], [], "undecided"),
        ("TIMEOUT", [], [], "undecided"),
        ("ERROR", [], [], "not run"),
    ],
)
def test_what_becomes_of_an_attack(
    attacks: ModuleType, decision: str, conditions: list[str], reach: list[str], fate: str
) -> None:
    attack = attacks.read_attack("one.py", _HEAD + "# begins: hidden=257\n")
    assert attacks.fate(decision, conditions, reach, attack) == fate


def test_lines_that_never_ran_name_the_fault_that_is_on_one_of_them(attacks: ModuleType) -> None:
    text = (
        _HEAD + "# fault: x = 0\n\ndef run(x):\n    if len(x) == 7:\n        x = 0\n    return x\n"
    )
    attack = attacks.read_attack("one.py", text)
    (line,) = attack.faults
    assert text.splitlines()[line - 1] == "        x = 0"
    for unreached, fate in (
        ([f"{line}-{line}"], "named"),
        ([f"{line - 1}-{line + 3}", "1-1"], "named"),
        ([f"{line + 1}-{line + 1}"], "through"),
        ([], "through"),
    ):
        assert attacks.fate("ACCEPTED", ["unreached"], [], attack, unreached=unreached) == fate
    with pytest.raises(SystemExit, match="no line of it holds"):
        attacks.read_attack("one.py", _HEAD + "# fault: nowhere\n")


def test_the_share_counts_what_was_judged(attacks: ModuleType) -> None:
    fates = ("through", "rejected", "named", "undecided", "not run")
    rows = [row(attacks, fate, name=fate) for fate in fates]
    rows.append(row(attacks, "through", "timing", "b"))
    found = attacks.summary(rows)
    assert (found["attacks"], found["share_through"]) == (5, 0.4)
    low, high = found["interval"]
    assert low < 0.4 < high
    assert found["classes"]["sizes"]["through"] == 1
    assert found["wrong_of_those_through"] == {"through": "the tail", "b": "the tail"}
    assert attacks.summary([])["share_through"] is None


def test_every_attack_has_a_head_and_all_classes_are_there(attacks: ModuleType) -> None:
    found = attacks.read_attacks(attacks.ATTACKS)
    assert len(found) >= 200
    assert len({one.problem for one in found}) >= 10
    assert {one.kind for one in found} == set(attacks.CLASSES)
    sets = {path.stem for path in attacks.ATTACKS.glob("sets/*.txt")}
    assert {one.attacker for one in found} == sets | {"first"}
    assert sum(one.side == "unread" for one in found) == 100
    for one in found:
        if one.file.endswith(".py"):
            names = _defined(one.text)
            assert "run" in names or "run =" in one.text, one.name


def _defined(text: str) -> set[str]:
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_a_file_without_a_head_is_refused(attacks: ModuleType) -> None:
    with pytest.raises(SystemExit, match="a known class"):
        attacks.read_attack("one.py", "# problem: rmsnorm\n# class: luck\n# wrong: all\n")


_HONEST = "import torch\n\n\ndef right(x):\n    y = -x\n    return -y\n"


def test_a_block_is_the_honest_kernel_with_its_lines_changed(attacks: ModuleType) -> None:
    found = attacks.read_attack(
        "one.py", _HEAD + "-|     y = -x\n+|     z = x\n+|     y = z\n", honest=_HONEST
    )
    assert found.text.endswith("def run(x):\n    z = x\n    y = z\n    return -y\n")
    assert (found.name, found.named) == ("one", frozenset({"sizes", "shapes"}))


def test_a_change_of_a_line_that_is_not_there_is_refused(attacks: ModuleType) -> None:
    with pytest.raises(SystemExit, match="0 times"):
        attacks.read_attack("one.py", _HEAD + "-|     y = x\n+|     y = 0\n", honest=_HONEST)


def test_a_block_may_use_the_honest_kernel(attacks: ModuleType) -> None:
    found = attacks.read_attack(
        "one.py", _HEAD + "\ndef run(x):\n    return right(x)\n", honest=_HONEST
    )
    assert {"right", "run"} == _defined(found.text)


def test_a_rejection_at_quick_stands_at_standard(attacks: ModuleType) -> None:
    rows = [row(attacks, "rejected", name="a"), row(attacks, "through", name="b")]
    rows.append(dataclasses.replace(row(attacks, "named", name="b"), profile="standard"))
    found = attacks.at_profile(rows, "standard")
    assert {one.name: one.fate for one in found} == {"a": "rejected", "b": "named"}
    assert [one.name for one in attacks.at_profile(rows, "quick")] == ["a", "b"]
