"""Files that users hand over: read whole, or one message with place, value and remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuassay.errors import CandidateError, ProblemError
from cuassay.formats.textfile import fail_all, json_kind, parse_json, read_beneath, read_text


def test_text_is_utf8_with_or_without_its_mark(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(b"\xef\xbb\xbfx = '\xc3\xa9'\n")
    assert read_text(file, CandidateError) == "x = 'é'\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ab\0c", "is a binary file (a null byte at offset 2)"),
        (b"ab\xffc", "is not UTF-8 text (byte 0xff at offset 2)"),
        (b"x" * 11, "has 11 bytes, expected at most 10"),
    ],
)
def test_a_file_that_is_no_text_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(data)
    with pytest.raises(CandidateError) as failure:
        read_text(file, CandidateError, limit_bytes=10)
    assert message in str(failure.value)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in (
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "is a device or a pipe"),
        (tmp_path / "none", "does not exist"),
        (Path("a\0b"), "cannot be read|does not exist"),
    ):
        with pytest.raises(ProblemError, match=what):
            read_text(path, ProblemError)


def test_no_link_leads_out_of_a_candidate_s_folder(tmp_path: Path) -> None:
    folder = tmp_path / "candidate"
    folder.mkdir()
    (tmp_path / "secret").write_text("key")
    (folder / "own.h").write_text("int x;")
    (folder / "inside.h").symlink_to("own.h")
    (folder / "outside.h").symlink_to("../secret")
    assert read_beneath(folder, "inside.h", CandidateError) == "int x;"
    with pytest.raises(CandidateError, match="a link that leads out of the candidate's folder"):
        read_beneath(folder, "outside.h", CandidateError)
    with pytest.raises(CandidateError, match="is a folder"):
        read_beneath(folder, ".", CandidateError)
    with pytest.raises(CandidateError, match="more than 3 bytes"):
        read_beneath(folder, "own.h", CandidateError, limit_bytes=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "b": }', "f: line 6, column 7: not valid JSON: Expecting value (near '}')"),
        ('{"a": 1', "(at its end)"),
        ('{"a": 1, "a": 2}', "f: line 5: the key 'a' stands twice in one object"),
        ("[" * 100_000, "JSON is nested too deeply"),
        ("[1]", "expected a JSON object {...}, got an array"),
        ('"text"', 'got the string "text"'),
    ],
)
def test_json_that_cannot_be_used_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as failure:
        parse_json(text, where="f", error=ProblemError, first_line=5)
    assert message in str(failure.value)


def test_values_have_the_names_of_json() -> None:
    values: list[object] = [None, True, {}, [], "x", 1, 2.5, "y" * 99]
    kinds = [json_kind(value) for value in values]
    assert kinds[:7] == [
        "null", "true", "an object", "an array", 'the string "x"', "the number 1", "the number 2.5",
    ]  # fmt: skip
    assert kinds[7].endswith("...")
    assert len(kinds[7]) < 75


def test_the_first_mistakes_are_listed_and_the_rest_counted() -> None:
    with pytest.raises(ProblemError) as failure:
        fail_all(ProblemError, (f"m{number}" for number in range(5)))
    assert str(failure.value).splitlines() == ["m0", "m1", "m2", "... and 2 more like these"]
    with pytest.raises(ProblemError, match=r"^m0$"):
        fail_all(ProblemError, ["m0"])
