"""The fewest regimes at equal power: the cover, the file that keeps it, the plan that uses it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.home import cache_dir
from cuassay.inputs.plan import plan_cases
from cuassay.inputs.regimes import NUMERIC
from cuassay.judge.measure import selection
from cuassay.judge.measure.kills import CaseKills
from cuassay.judge.measure.selection import Selection, cover, covering
from cuassay.model.case import Case
from cuassay.model.verdict import Profile

_CHOSEN = Selection(regimes=("normal", "late peak", "small"), mutants=40, killed=38)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    return tmp_path


def test_the_cover_holds_everything_and_nothing_superfluous() -> None:
    kills = [{1, 2}, {2, 3, 4}, {1}, {5}, set[int]()]
    chosen = cover(kills, [1, 1, 1, 1, 1])
    assert set().union(*(kills[i] for i in chosen)) == {1, 2, 3, 4, 5}
    for left_out in chosen:
        rest = set[int]().union(*(kills[i] for i in chosen if i != left_out))
        assert rest != {1, 2, 3, 4, 5}


def test_of_equals_the_cheaper_is_taken() -> None:
    assert cover([{1, 2}, {1, 2}], [100, 10]) == (1,)
    assert cover([{1, 2}, {1, 2}], [10, 100]) == (0,)


def test_an_early_choice_that_later_ones_make_superfluous_is_dropped() -> None:
    kills = [{1, 2, 3, 4}, {1, 2, 5, 6}, {3, 4, 7}, {8}]
    assert sorted(cover(kills, [1, 1, 1, 1])) == [1, 2, 3]


def test_nothing_to_tell_apart_needs_nothing() -> None:
    assert cover([], []) == ()
    assert cover([set(), set()], [1, 1]) == ()
    assert covering([], lambda i: 1) == ()


def tried(killed: dict[int, float]) -> CaseKills:
    return CaseKills(case=Case(label="", axes={}), ran=frozenset(range(9)), killed=killed)


def test_the_first_case_is_always_taken_and_luck_counts_only_alone() -> None:
    plain, lucky, sure = tried({0: 5.0}), tried({1: 1.1, 2: 1.1}), tried({1: 3.0})
    assert covering([plain, lucky, sure], lambda i: 1) == (0, 1, 2)
    assert covering([plain, tried({1: 1.1}), sure], lambda i: 1) == (0, 2)
    assert covering([plain, tried({0: 9.0})], lambda i: 1) == (0,)


def test_what_is_kept_is_read_again() -> None:
    problem = registry.get("rmsnorm")
    assert selection.read_selection(problem) is None
    selection.store(problem, _CHOSEN)
    assert selection.read_selection(problem) == _CHOSEN
    assert selection.read_selection(registry.get("swiglu")) is None
    (file,) = (cache_dir() / "power").iterdir()
    assert "seed" not in file.read_text()


@pytest.mark.parametrize(
    "change",
    [
        {"regimes": ["no such regime"]},
        {"regimes": 3},
        {"regimes": [["normal"]]},
        {"format": 99},
        {"mutants": "many"},
        {"extra": 1},
    ],
)
def test_a_kept_file_that_says_anything_else_is_not_used(change: dict[str, object]) -> None:
    problem = registry.get("rmsnorm")
    selection.store(problem, _CHOSEN)
    (file,) = (cache_dir() / "power").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert selection.read_selection(problem) is None
    file.write_bytes(b"\xff{")
    assert selection.read_selection(problem) is None


def test_a_home_that_cannot_be_written_costs_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "file"))
    selection.store(registry.get("rmsnorm"), _CHOSEN)
    assert selection.read_selection(registry.get("rmsnorm")) is None


def numeric(profile: Profile, *first: str) -> tuple[Case, ...]:
    problem = registry.get("rmsnorm")
    return plan_cases(problem, "numeric", profile=profile, root_seed=5, first=first)


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD, Profile.DEEP])
def test_the_plan_runs_the_chosen_first_and_loses_none(profile: Profile) -> None:
    usual, chosen = numeric(profile), numeric(profile, *_CHOSEN.regimes)
    labels = [case.label.split(" on ")[0] for case in chosen]
    assert labels[: len(_CHOSEN.regimes)] == list(_CHOSEN.regimes)
    assert set(labels) == {case.label.split(" on ")[0] for case in usual} | set(_CHOSEN.regimes)
    by_label = {case.label: case for case in chosen}
    assert all(by_label[case.label] == case for case in usual)


def test_the_names_of_regimes_identify_them() -> None:
    assert len({regime.name for regime in NUMERIC}) == len(NUMERIC)
    assert dataclasses.replace(NUMERIC[0]).name == "normal"
