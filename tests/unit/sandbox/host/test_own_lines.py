"""Findings point to lines of the candidate, whatever names its process has for its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.model.candidate import SourceFile
from cuassay.model.problem import Problem
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.own_lines import own_lines
from tests.hostile.problem import scaled
from tests.zoo.judging import Gate

_PROBLEM: Problem = vars(scaled)["__cuassay_problem__"]
_SOURCES = (
    SourceFile(path="kernel.py", text="one\ntwo\n"),
    SourceFile(path="sub/helper.py", text="one\n"),
)


def test_lines_of_the_candidate_stay_in_their_order() -> None:
    frames = [("sub/helper.py", 1), ("kernel.py", 2), ("helper.py", 1)]
    assert own_lines(frames, _SOURCES) == (
        ("sub/helper.py", 1),
        ("kernel.py", 2),
        ("sub/helper.py", 1),
    )


@pytest.mark.parametrize(
    "frame",
    [("/etc/x", 1), ("/etc/kernel.py", 1), ("../kernel.py", 1), ("kernel.py", 99), ("kernel.py", 0),
     ("", 1), ("<string>", 1)],
)  # fmt: skip
def test_other_files_and_lines_are_left_out(frame: tuple[str, int]) -> None:
    assert own_lines([frame], _SOURCES) == ()


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate("cpu", without=("machine",), nursery=nursery) as opened:
        yield opened


_CALLED = (
    "SCOPE = {{}}\n"
    "exec(compile('def run(x):\\n    raise ValueError(1)', {name!r}, 'exec'), SCOPE)\n"
)
_NAMED = {
    "call": _CALLED.format(name="/etc/x") + "run = SCOPE['run']\n",
    "source-folder": _CALLED.format(name="/a/src/../../etc/x") + "run = SCOPE['run']\n",
    "import": "exec(compile('raise ValueError(1)', '/etc/x', 'exec'))\ndef run(x): return x\n",
    "syntax": "compile('a b', '/etc/x', 'exec')\ndef run(x): return x\n",
}


@pytest.mark.parametrize("body", _NAMED.values(), ids=_NAMED)
def test_a_finding_names_no_file_of_the_system(gate: Gate, body: str, tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(body)
    found = gate.judge(_PROBLEM, tmp_path / "named.py", only=("NUM001",))
    wrong = [one for report in found.verdict.checks for one in report.wrong]
    assert wrong, str(found)
    assert {line.file for one in wrong for line in one.lines} <= {"named.py"}
    assert all(one.line is None or one.line.file == "named.py" for one in found.verdict.diagnoses)
