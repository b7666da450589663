"""The edit that makes a candidate right names the line; what breaks it elsewhere does not count."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.diagnosis.edits import Edit, EditKind
from cuassay.judge.diagnose import repairs
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.diagnosis import Cause, SourceLine

_TEXT = "def run(x):\n    if x.shape[0] > 8:\n        return x + 1\n    return x * 2\n"


def _candidate(text: str = _TEXT, language: Language = Language.PYTHON) -> Candidate:
    return Candidate(
        name="k",
        sources=(SourceFile(path="k.py", text=text),),
        entry_file="k.py",
        entry_function="run",
        language=language,
    )


def _found(
    right: Callable[[str], bool],
    *,
    limit: int = 50,
    candidate: Candidate | None = None,
    until: float = float("inf"),
    worth: Callable[[Edit], bool] = lambda edit: True,
) -> tuple[repairs.Repair | None, int]:
    """Search with answers that `right` gives for the text of an edited source."""
    tried: list[str] = []

    @contextlib.contextmanager
    def runs(edited: Candidate) -> Iterator[Any]:
        tried.append(edited.sources[0].text)
        yield edited.sources[0].text

    repair = repairs.find_repair(
        None,  # type: ignore[arg-type]
        candidate or _candidate(),
        None,
        cause=Cause.WRONG_VALUES,
        runs=runs,
        answers=right,  # type: ignore[arg-type]
        ran=frozenset(),
        near=None,
        worth=worth,
        limit=limit,
        until=until,
    )
    return repair, len(tried)


def test_the_edit_that_makes_it_right_names_the_line() -> None:
    repair, _ = _found(lambda text: "if False" in text)
    assert repair is not None
    assert (repair.line.file, repair.line.line) == ("k.py", 2)
    assert repair.line.text == "if x.shape[0] > 8:"
    assert "never true" in repair.line.what
    assert repair.cause(Cause.WRONG_VALUES, accumulates=False) is Cause.SIZES


def test_nothing_is_named_where_no_edit_helps_and_the_limit_holds() -> None:
    assert _found(lambda text: False, limit=5) == (None, 5)


def test_only_edits_that_are_worth_it_are_tried() -> None:
    repair, number = _found(lambda text: False, worth=lambda edit: edit.kind is EditKind.BRANCH)
    assert repair is None
    assert 0 < number < _found(lambda text: False)[1]


def test_no_edit_begins_that_would_take_as_long_as_the_last_one_and_end_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes 15 s by this clock, as the build of an extension does."""
    clock = itertools.count(0.0, 15.0)
    monkeypatch.setattr(repairs, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert _found(lambda text: False, until=12.0)[1] == 1
    clock = itertools.count(0.0, 15.0)
    assert _found(lambda text: False, until=50.0)[1] == 2


def test_what_is_not_python_is_not_edited() -> None:
    raw = _candidate("__global__ void k() {}", Language.CUDA_KERNEL)
    assert _found(lambda text: True, candidate=raw) == (None, 0)


@pytest.mark.parametrize(
    ("kind", "fields", "before", "cause"),
    [
        (EditKind.PRECISION, {"filled": True}, Cause.TAIL, Cause.LOW_ACCUMULATION),
        (EditKind.PRECISION, {}, Cause.TAIL, Cause.LOW_PRECISION),
        (EditKind.BRANCH, {}, Cause.TERM_OMITTED, Cause.SPECIAL_CASE),
        (EditKind.INDEX, {}, Cause.WRONG_VALUES, Cause.INPUT_MISREAD),
        (EditKind.PARAMETER, {}, Cause.TERM_OMITTED, Cause.TERM_OMITTED),
        (EditKind.PARAMETER, {"sizes": True}, Cause.WRONG_VALUES, Cause.SIZES),
        (EditKind.FACTOR, {}, Cause.TERM_OMITTED, Cause.INPUT_IGNORED),
        (EditKind.PRECISION, {"carried": True}, Cause.WRONG_VALUES, Cause.LOW_ACCUMULATION),
        (EditKind.NUMBER, {"indexed": True}, Cause.WRONG_VALUES, Cause.INPUT_MISREAD),
        (EditKind.NUMBER, {}, Cause.WRONG_VALUES, Cause.WRONG_CONSTANT),
        (EditKind.NUMBER, {}, Cause.TAIL, Cause.TAIL),
        (EditKind.NAME, {"given": True}, Cause.WRONG_VALUES, Cause.INPUT_MISREAD),
        (EditKind.NAME, {}, Cause.WRONG_VALUES, Cause.WRONG_VALUES),
        (EditKind.NUMBER, {"indexed": True, "ranged": True}, Cause.SIZES, Cause.SIZES),
        (EditKind.OPERATOR, {}, Cause.WRONG_VALUES, Cause.OTHER_FORM),
        (EditKind.OPERATOR, {}, Cause.MAGNITUDE, Cause.MAGNITUDE),
        (EditKind.STATEMENT, {}, Cause.OUT_OF_RANGE, Cause.OUT_OF_RANGE),
    ],
)
def test_the_kind_of_edit_says_the_cause(
    kind: EditKind, fields: dict[str, bool], before: Cause, cause: Cause
) -> None:
    edit = Edit(kind=kind, line=1, words="", text="", **fields)
    repair = repairs.Repair(edit=edit, line=SourceLine(file="k.py", line=1))
    assert repair.cause(before, accumulates=False) is cause
