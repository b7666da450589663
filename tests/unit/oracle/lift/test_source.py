"""Lines of the reference: the innermost of the user's, told of a call and of an exception."""

from __future__ import annotations

from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch

from cuassay.oracle.lift.source import failing_line, source_line, source_position


def _user(text: str, folder: Path) -> dict[str, Any]:
    file = folder / "theirs.py"
    file.write_text(text)
    code: CodeType = compile(text, str(file), "exec")
    scope: dict[str, Any] = {"torch": torch, "line": source_line, "position": source_position}
    exec(code, scope)
    return scope


def test_the_line_is_that_of_the_file_that_called(tmp_path: Path) -> None:
    theirs = _user("def run():\n    x = 1\n    return line(), position()\n", tmp_path)
    line, position = theirs["run"]()
    assert line == "theirs.py:3"
    assert position.where == "theirs.py:3"
    assert position.text == "position()"
    assert position.column == 19


def test_an_exception_inside_torch_belongs_to_the_line_that_called_it(tmp_path: Path) -> None:
    theirs = _user("def run():\n    return torch.nn.Linear(2, 3)(torch.ones(5))\n", tmp_path)
    with pytest.raises(RuntimeError) as raised:
        theirs["run"]()
    assert failing_line(raised.value) == "theirs.py:2"


def test_an_exception_without_a_trace_belongs_to_its_call() -> None:
    assert failing_line(ValueError()) == "its call"
