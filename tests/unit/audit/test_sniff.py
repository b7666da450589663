"""What a file is, from a look at its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.audit.sniff import (
    author_in,
    head,
    is_definition,
    is_kernelbench_candidate,
    is_kernelbench_problem,
    is_native_problem,
    is_solution,
    json_object,
    leaderboard_in,
    text_of,
)


def test_problems_are_told_by_what_stands_at_the_beginning_of_a_line() -> None:
    assert is_native_problem("import cuassay\n\n@cuassay.problem(inputs=[])\ndef f(x): ...")
    assert is_native_problem("@problem()\ndef f(x): ...")
    assert not is_native_problem('text = """\n    @problem()\n"""')
    model = "class Model(nn.Module):\n    ...\n\ndef get_inputs():\n    ...\n"
    assert is_kernelbench_problem(model)
    assert not is_kernelbench_problem(model.replace("get_inputs", "inputs"))
    assert not is_kernelbench_candidate(model)
    assert is_kernelbench_candidate("class ModelNew(nn.Module): ...")


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("# author: Some One\nx", "Some One"),
        ("// Model: m-1 \nx", "m-1"),
        ("x = 1  # author: no", ""),
        ("#author :a", "a"),
        ("\n" * 3000 + "# author: late", ""),
    ],
)
def test_the_author_is_a_comment_at_the_top(text: str, author: str) -> None:
    assert author_in(text) == author


def test_a_submission_names_its_leaderboard() -> None:
    assert leaderboard_in("#!POPCORN leaderboard grayscale_v2\n#!POPCORN gpus A100") == (
        "grayscale_v2"
    )
    assert leaderboard_in("# leaderboard x") == ""


def test_json_that_is_no_object_is_none_and_broken_json_raises(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text, expected in (('{"a": 1}', {"a": 1}), ("[1]", None), ("3", None)):
        file.write_text(text)
        assert json_object(file) == expected
    for text in ("{", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            json_object(file)
    with pytest.raises(OSError, match="No such file"):
        json_object(tmp_path / "none.json")


def test_definitions_and_solutions_have_their_keys() -> None:
    definition = {"name": "x", "inputs": {}, "outputs": {}}
    assert is_definition(definition)
    assert not is_definition(definition | {"sources": []})
    assert is_solution({"spec": {}, "sources": []})
    assert not is_solution(definition)
    assert (text_of({"a": "x"}, "a"), text_of({"a": 3}, "a"), text_of({}, "a")) == ("x", "", "")


def test_only_the_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "large.py"
    file.write_bytes(b"x" * (1 << 20) + b"\xff")
    assert len(head(file)) == 256 * 1024
