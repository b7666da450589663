"""Which of the edited instructions that repair a call is said."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.judge.diagnose import instructions
from cuassay.judge.diagnose.instructions import InstructionRepair, find_instruction_repair
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.machine import EditedCall, EditedCalls, InstructionChange, InstructionEdit
from tests.support.builds import candidate, problem

WRONG = Case(label="wrong", axes={"rows": 5, "hidden": 8, "half": 4})
RIGHT = Case(label="right", axes={"rows": 1, "hidden": 8, "half": 4})
SOURCE = candidate("def kernel(x, n):\n    at = n\n    return x[at]\n", paths=("k.py",))


def _edit(change: InstructionChange, line: int) -> InstructionEdit:
    return InstructionEdit(
        change=change, file="k.py", line=line, words=f"{change.value}", key=f"{change.value} {line}"
    )


def _found(
    monkeypatch: pytest.MonkeyPatch, edits: list[InstructionEdit], *, breaks: str = ""
) -> InstructionRepair | None:
    """Search among edits that repair the failing call; `breaks` is the key of one that harms."""

    def edited(trial: Any, machine: Any, call: Case, **asked: Any) -> EditedCalls:
        keys = asked.get("keys")
        wanted = (one for one in edits if keys is None or one.key in keys)
        return EditedCalls(calls=tuple(EditedCall(edit=one) for one in wanted))

    def is_right(trial: Any, call: Case, one: EditedCall) -> bool:
        return call is WRONG or one.edit.key != breaks

    monkeypatch.setattr(instructions, "record_call", lambda trial, run, case: case)
    monkeypatch.setattr(instructions, "edited_calls", edited)
    monkeypatch.setattr(instructions, "is_right", is_right)
    trial: Any = SimpleNamespace(machine=SimpleNamespace(absent=""), problem=problem())
    return find_instruction_repair(
        trial,
        lambda scenario: pytest.fail("nothing is called"),
        SOURCE,
        wrong=[WRONG],
        right=[RIGHT],
        near=None,
        until=time.monotonic() + 60,
    )


def test_a_line_within_the_kernel_is_said_before_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter is read at the head, wherever it goes wrong."""
    head = _edit(InstructionChange.PARAMETER, 1)
    within = _edit(InstructionChange.INDEX, 2)
    found = _found(monkeypatch, [head, within])
    assert found is not None
    assert found.edit is within
    only = _found(monkeypatch, [head])
    assert only is not None
    assert only.line == SourceLine(
        file="k.py",
        line=1,
        text="def kernel(x, n):",
        what="a copy of its PTX with parameter was right on the calls tried",
    )


def test_an_edit_that_makes_a_right_call_wrong_is_no_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = _edit(InstructionChange.NUMBER, 2), _edit(InstructionChange.INDEX, 3)
    found = _found(monkeypatch, [first, second], breaks=first.key)
    assert found is not None
    assert found.edit is second
    assert found.cause(Cause.WRONG_VALUES) is Cause.INPUT_MISREAD
    assert _found(monkeypatch, [first], breaks=first.key) is None
