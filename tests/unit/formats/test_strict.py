"""Models that refuse unknown keys, and what they say in the user's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import Field

from cuassay.errors import ProblemError
from cuassay.formats.strict import StrictModel, read_model


class _Axis(StrictModel):
    size: int
    aliases: ClassVar[Mapping[str, str]] = {"length": "size"}


class _Problem(StrictModel):
    name: str
    axes: dict[str, _Axis] = Field(default_factory=dict)
    hints: ClassVar[Mapping[str, str]] = {"tolerance": "it belongs into the workload"}


def _refusal(data: Mapping[str, object], *, strict: bool = False) -> str:
    with pytest.raises(ProblemError) as failure:
        read_model(_Problem, data, where="p.json", error=ProblemError, strict=strict)
    return str(failure.value)


def test_unknown_keys_are_dropped_and_told() -> None:
    notes: list[str] = []
    data = {"name": "k", "nmae": 1, "axes": {"n": {"size": 3, "unit": "rows"}}}
    found = read_model(_Problem, data, where="p.json", error=ProblemError, notes=notes)
    assert found == _Problem(name="k", axes={"n": _Axis(size=3)})
    assert len(notes) == 2
    assert any("unknown key 'nmae': did you mean 'name'" in note for note in notes)
    assert any("unknown key 'axes.n.unit' (known: size)" in note for note in notes)
    assert all(note.startswith("p.json: ignored: ") for note in notes)
    assert data["nmae"] == 1  # the caller's data stay as they are


def test_a_key_that_real_files_use_for_another_is_read_as_that_one() -> None:
    data = {"name": "k", "axes": {"n": {"length": 5}}}
    found = read_model(_Problem, data, where="p.json", error=ProblemError)
    assert found.axes["n"].size == 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"axes": {}}, "p.json: name is missing: add it"),
        ({"name": 3}, "p.json: name: expected a valid string, got the number 3"),
        ({"name": "k", "axes": {"n": {"size": "3"}}}, "axes.n.size: expected a valid integer"),
        ({"name": "k", "axes": [1]}, "axes: expected an object, got an array"),
    ],
)
def test_mistakes_have_place_value_and_expectation(
    data: Mapping[str, object], message: str
) -> None:
    assert message in _refusal(data)


def test_with_strict_an_unknown_key_is_a_mistake_that_says_where_it_belongs() -> None:
    text = _refusal({"name": "k", "tolerance": 1}, strict=True)
    assert "unknown key 'tolerance': it belongs into the workload" in text
    assert "read without --strict to ignore it" in text


def test_what_is_really_wrong_is_told_beside_the_unknown_key() -> None:
    text = _refusal({"nmae": "k"})
    assert "unknown key 'nmae'" in text
    assert "name is missing" in text
