"""A foreign candidate beside the file that adapts its calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import CandidateError
from cuassay.formats.adapted import ENTRY, adapted_candidate, module_name, require

_FILE = Path("/there/kernel.py")


@pytest.mark.parametrize(
    "text",
    [
        "def solve(x): ...",
        "class solve: ...",
        "from other import solve",
        "import other as solve",
        "solve = other",
        "def solve(: not Python",  # the build says so
    ],
)
def test_a_name_may_be_bound_in_any_way(text: str) -> None:
    require("solve", text, _FILE, expected="a function")


def test_a_name_that_nothing_binds_is_missed_before_any_build() -> None:
    with pytest.raises(CandidateError, match="defines no 'solve': expected a function"):
        require("solve", "def other():\n    return solve\n", _FILE, expected="a function")


@pytest.mark.parametrize(
    ("file", "module"),
    [("kernel.py", "kernel"), ("my-kernel.py", "theirs"), ("3d.py", "theirs"), (ENTRY, "theirs")],
)
def test_a_file_is_imported_by_its_name_where_that_is_one(file: str, module: str) -> None:
    assert module_name(Path(file), otherwise="theirs") == module


def test_the_entry_is_called_and_the_users_file_lies_beside_it() -> None:
    made = adapted_candidate(
        _FILE, "x = 1", name="k", module="kernel", entry="def run(): ...", helpers=()
    )
    assert {one.path: one.text for one in made.sources} == {
        ENTRY: "def run(): ...", "kernel.py": "x = 1",
    }  # fmt: skip
    assert (made.entry_file, made.entry_function, made.adapter) == (ENTRY, "run", ENTRY)
