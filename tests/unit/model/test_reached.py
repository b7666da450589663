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
    ],
)
def test_what_has_another_form_says_nothing(found: object) -> None:
    assert read_reached(found) == Reached()
