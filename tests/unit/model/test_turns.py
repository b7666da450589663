"""Lists as one, a part of each in turn."""

from __future__ import annotations

from cuassay.model.turns import in_turns


def test_every_item_comes_once_and_shorter_lists_end_sooner() -> None:
    assert list(in_turns(["abc", "x", "", "12"])) == ["a", "x", "1", "b", "2", "c"]
    assert list(in_turns([[1, 2, 3], [4]], each=2)) == [1, 2, 4, 3]
    assert list(in_turns([])) == []
