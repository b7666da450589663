"""What a profile means is one table: more effort never tries less, and every row is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cuassay.model import effort
from cuassay.model.effort import Effort
from cuassay.model.verdict import Profile

_ROOT = Path(__file__).parents[3]
_SOURCES = [
    *(_ROOT / "src/cuassay").rglob("*.py"),
    *(_ROOT / "packages").glob("cuassay-*/src/**/*.py"),
]
_ROWS = {name: row for name, row in vars(Effort).items() if isinstance(row, effort._Row)}
# Calls of a history at `quick` try more factors at once, since there are fewer histories.
_FALLS = {"history_calls"}


@pytest.mark.parametrize("name", [name for name in _ROWS if name not in _FALLS])
def test_more_effort_never_tries_less(name: str) -> None:
    sizes = [
        (len(value) if isinstance(value, tuple | dict) else value) for value in _ROWS[name].every()
    ]
    assert sizes == sorted(sizes)


def test_an_effort_is_the_column_of_its_profile() -> None:
    columns = [Effort(profile).same_calls for profile in Profile]
    assert tuple(columns) == Effort.same_calls.every()
    assert len(set(columns)) == 3


def test_every_row_is_used_and_no_other_file_has_a_table_of_profiles() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in _SOURCES}
    read = {name for text in texts.values() for name in re.findall(r"\.(\w+)", text)}
    assert len(_ROWS) > 50
    assert not set(_ROWS) - read
    tables = {
        file.name
        for file, text in texts.items()
        if "Profile.DEEP" in text  # others are not parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Dict)
        and {ast.unparse(key) for key in node.keys if key} >= {"Profile.QUICK", "Profile.DEEP"}
    }
    assert tables == {"effort.py"}
