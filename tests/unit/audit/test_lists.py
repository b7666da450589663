"""Lists of candidates: CSV and JSONL, and what becomes of lines that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.audit.lists import read_list
from cuassay.errors import UnknownNameError, UsageError


def test_a_csv_names_pairs_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "k.cu").write_text("x")
    (tmp_path / "set" / "notes.txt").write_text("x")
    file = tmp_path / "list.csv"
    file.write_text(
        "problem, candidate ,author,family\n"
        "rmsnorm,a.py,me,norm\n"
        "p.py:scale,set,,\n"
        ",a.py,,\n"
        "rmsnorm,a.py::run,,\n"
    )
    tree = read_list(file)
    first, second, third = tree.pairs
    assert (first.problem.where, first.problem.name) == ("rmsnorm", "rmsnorm")
    assert first.candidate.where == str(tmp_path / "a.py")
    assert (first.candidate.author, first.family) == ("me", "norm")
    assert second.problem.where == f"{tmp_path / 'p.py'}:scale"
    assert second.candidate.files == (tmp_path / "set" / "k.cu",)
    assert third.problem is first.problem  # one problem, however many lines name it
    assert [problem.where for problem in tree.problems] == ["rmsnorm", f"{tmp_path / 'p.py'}:scale"]
    (odd,) = tree.oddities
    assert odd.path.endswith("list.csv: line 4")
    assert odd.message == "names no problem: passed over"


def test_a_jsonl_goes_on_behind_broken_lines(tmp_path: Path) -> None:
    file = tmp_path / "list.jsonl"
    rows = [json.dumps({"problem": "rmsnorm", "candidate": "k.py", "model": "m1", "name": "best"})]
    file.write_text("\n".join([*rows, "{", "[1]", "", json.dumps({"problem": 3})]))
    tree = read_list(file)
    (pair,) = tree.pairs
    assert (pair.candidate.name, pair.candidate.author) == ("best", "m1")
    messages = [odd.message for odd in tree.oddities]
    assert messages[0].startswith("not valid JSON")
    assert messages[1:] == ["no JSON object: passed over", "names no problem: passed over"]


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("problem,kernel\nx,y\n")
    with pytest.raises(UnknownNameError, match="candidate"):
        read_list(file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_list(tmp_path / "none.csv")
