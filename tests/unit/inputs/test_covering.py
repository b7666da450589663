"""Covering arrays hold every combination that a legal row holds, in few rows."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from cuassay.inputs.covering import Row, cover

FACTORS = (("a", "b", "c", "d"), (1, 2, 3), (True, False), ("x", "y", "z"))


def is_legal(row: Row) -> bool:
    return not (row[0] == "a" and row[2])


def parts(rows: list[Row], strength: int) -> set[object]:
    return {part for row in rows for part in combinations(enumerate(row), strength)}


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_every_combination_that_is_possible_occurs(strength: int) -> None:
    rows = cover(FACTORS, strength=strength, legal=is_legal)
    every = [row for row in product(*FACTORS) if is_legal(row)]
    assert parts(rows, strength) == parts(every, strength)
    assert all(is_legal(row) for row in rows)


def test_pairs_need_far_fewer_rows_than_there_are() -> None:
    assert len(cover(FACTORS, strength=2, legal=is_legal)) <= 16  # 12 at least, of 60


def test_rows_that_are_given_come_first_and_count() -> None:
    given = [("d", 3, False, "z"), ("c", 2, True, "y")]
    rows = cover(FACTORS, strength=2, legal=is_legal, first=given)
    assert rows[:2] == given
    again = cover(FACTORS, strength=2, legal=is_legal, first=rows)
    assert again == rows
