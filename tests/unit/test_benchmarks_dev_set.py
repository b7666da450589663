"""What the measurement of the development set makes of documents and traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import loaded


@pytest.fixture
def dev_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "dev_set")


def document(verdict: str, *conditions: str, causes: tuple[str, ...] = ()) -> Mapping[str, Any]:
    diagnoses = [{"cause": one, "words": f"words of {one}"} for one in causes]
    return {
        "verdict": verdict,
        "conditions": [f"{one}: so" for one in conditions],
        "diagnoses": diagnoses,
    }


def test_a_rejection_is_right_or_an_acceptance_under_a_named_condition(dev_set: ModuleType) -> None:
    case = dev_set.Checked(candidate="bad.py", named=frozenset({"sizes"}))
    assert dev_set.verdict_faults(case, document("REJECTED")) == ()
    assert dev_set.verdict_faults(case, document("ACCEPTED", "sizes", "layouts")) == ()
    assert dev_set.verdict_faults(case, document("ACCEPTED", "layouts")) == (
        "ACCEPTED; expected REJECTED, or ACCEPTED under sizes",
    )
    assert dev_set.verdict_faults(case, {}) != ()


def test_an_acceptance_has_the_conditions_it_needs(dev_set: ModuleType) -> None:
    case = dev_set.Checked(
        candidate="good.py",
        verdict="ACCEPTED",
        needed=frozenset({"precision"}),
        spared=frozenset({"padding"}),
    )
    assert dev_set.verdict_faults(case, document("ACCEPTED", "precision")) == ()
    assert dev_set.verdict_faults(case, document("ACCEPTED", "padding")) == (
        "condition precision is missing",
        "condition padding is not so",
    )


def test_causes_and_words_are_held_against_a_rejection(dev_set: ModuleType) -> None:
    case = dev_set.Checked(
        candidate="bad.py",
        causes=frozenset({"misaligned"}),
        other_causes=frozenset({"tail"}),
        other_words=("of race",),
    )
    assert dev_set.verdict_faults(case, document("REJECTED", causes=("misaligned",))) == ()
    assert dev_set.verdict_faults(case, document("REJECTED", causes=("tail", "race"))) == (
        "cause race, tail; expected misaligned",
        "cause tail is not so",
        "'of race' is not so",
    )


def finding(kind: str, severity: str = "wrong", line: int = 3) -> Mapping[str, Any]:
    return {"kind": kind, "severity": severity, "accesses": [{"line": line}]}


def test_findings_of_a_program_are_those_of_its_host_and_launches(dev_set: ModuleType) -> None:
    case = dev_set.Executed(source="k.cu", least=1, most=1, kinds=("note",), line=3)
    program = {
        "host": [finding("note", "note")],
        "launches": [{"findings": [finding("race")]}, "a launch that was not covered"],
    }
    assert dev_set.execution_faults(case, program, 1) == ()
    assert dev_set.execution_faults(case, {"findings": []}, 0) == (
        "0 errors; expected 1",
        "exit code 0",
        "no finding of kind note",
        "line 3 is named by no finding",
    )


def test_traces_are_seen(dev_set: ModuleType, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    traces = dev_set.Traces(files=(str(marker),), texts=("secret",), segments=(0x7FFFFFF1,))
    assert dev_set.left(traces, "nothing") == ()
    marker.touch()
    assert dev_set.left(traces, "a secret") == (
        f"{marker} exists",
        "'secret' stands in the document",
    )


def test_no_case_is_named_twice(dev_set: ModuleType) -> None:
    names = [case.name for cases in dev_set.SETS.values() for case in cases]
    assert len(names) == len(set(names))


def test_the_variants_are_there_each_with_a_problem_and_a_verdict(dev_set: ModuleType) -> None:
    folder = Path(str(dev_set.__file__)).parent / "variants"
    sets = dev_set.sets_of(folder)
    assert {part: len(cases) for part, cases in sets.items()} == {"right": 30, "wrong": 34}
    files = {str(path.relative_to(folder)) for path in folder.glob("*/*.py")}
    cases = [case for part in sets.values() for case in part]
    assert {case.candidate for case in cases} == files
    problems = (folder / "problems.py").read_text(encoding="utf-8")
    for case in cases:
        file, _, function = case.problem.partition(":")
        assert file == "problems.py"
        assert f"\ndef {function}(" in problems
        assert case.verdict == ("ACCEPTED" if case.candidate.startswith("right/") else "REJECTED")


def test_a_folder_without_cases_of_its_own_is_the_development_set(
    dev_set: ModuleType, tmp_path: Path
) -> None:
    assert dev_set.sets_of(tmp_path) is dev_set.SETS
    with pytest.raises(SystemExit):
        dev_set.main([str(tmp_path)])
