"""What a process says of the code that ran: read as far as it has the form, and united."""

from __future__ import annotations

import pytest

from cuassay.model.reached import Reached, read_reached

_TOLD = {"files": {"a.py": {"at": [[1, 0], [2, 4]], "branches": [[2, 7, 3, 8, False]]}}}


def test_places_and_branches_are_read_and_united() -> None:
    one = read_reached({**_TOLD, "lost": False})
    assert one.places == {"a.py": {(1, 0), (2, 4)}}
    assert one.branches == {"a.py": {(2, 7, 3, 8, False)}}
    other = Reached(places={"a.py": frozenset({(9, 0)}), "b.py": frozenset()}, calls=2, lost=True)
    both = one | other
    assert both.places == {"a.py": {(1, 0), (2, 4), (9, 0)}, "b.py": frozenset()}
    assert (both.calls, both.lost) == (3, True)


def test_values_of_an_expression_are_united_as_far_as_two() -> None:
    first, then, later = (
        read_reached({**_TOLD, "lost": False, "values": {"a.py": [[2, 4, 2, 9, *said]]}})
        for said in (["7"], ["7", "8"], ["9"])
    )
    assert first.values == {"a.py": {(2, 4, 2, 9): {"7"}}}
    assert (first | first).values == first.values
    assert (first | then | later).values == {"a.py": {(2, 4, 2, 9): {"7", "8"}}}
    elsewhere = Reached(values={"a.py": {(3, 0, 3, 1): frozenset({"true"})}})
    assert set((first | elsewhere).values["a.py"]) == {(2, 4, 2, 9), (3, 0, 3, 1)}


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"files": []},
        {"files": {"a.py": {}}, "lost": False},
        {"files": {"a.py": {"at": [[1]], "branches": []}}, "lost": False},
        {"files": {"a.py": {"at": [[1, "x"]], "branches": []}}, "lost": False},
        {"files": {"a.py": {"at": [], "branches": [[1, 2]]}}, "lost": False},
        {"files": {"a.py": {"at": [[1, float("inf")]], "branches": []}}, "lost": False},
        {"files": {}},
        {"files": {}, "lost": False, "values": {"a.py": [[1, 2]]}},
        {"files": {}, "lost": False, "values": [[1, 2, 3, 4, "true"]]},
    ],
)
def test_what_has_another_form_says_nothing(found: object) -> None:
    assert read_reached(found) == Reached()


def test_lines_of_cpp_are_read_and_united() -> None:
    first, then = (
        read_reached({**_TOLD, "lost": False, "host": {"a.cpp": said}})
        for said in ([[4, -1, 1], [4, 0, 0]], [[4, 0, 1]])
    )
    assert first.host == {"a.cpp": {(4, -1, True), (4, 0, False)}}
    assert (first | then).host == {"a.cpp": {(4, -1, True), (4, 0, False), (4, 0, True)}}
    assert read_reached({**_TOLD, "lost": False, "host": {"a.cpp": [[4]]}}) == Reached()
