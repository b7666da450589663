"""Covering arrays: few rows in which every pair (or triple) of choices occurs at least once.

A greedy array in the manner of AETG (Cohen, Dalal, Fredman, Patton, IEEE TSE 23(7), 1997): the
next row is the legal one that covers the most combinations that no row covers yet. Rows are few
here (factors of two to four choices), so every legal row is looked at instead of random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

Row = tuple[Any, ...]
_Part = tuple[tuple[int, Any], ...]


def cover(
    factors: Sequence[Sequence[Any]],
    *,
    strength: int,
    legal: Callable[[Row], bool],
    first: Iterable[Row] = (),
) -> list[Row]:
    """Return rows, one choice a factor, that hold every `strength` choices that any legal row does.

    The rows of `first` come first and count; combinations that no legal row holds are not
    asked for. The result is the same for the same arguments; of rows that cover as much, the
    one with the earlier choices is taken. The work grows with the product of the factors.
    """
    rows = list(first)
    pool = [row for row in product(*factors) if legal(row)]
    parts = {row: _parts(row, strength) for row in pool}
    missing = {part for found in parts.values() for part in found}
    for row in rows:
        missing -= _parts(row, strength)
    while missing:
        best = max(pool, key=lambda row: len(parts[row] & missing))
        rows.append(best)
        missing -= parts[best]
    return rows


def _parts(row: Row, strength: int) -> frozenset[_Part]:
    return frozenset(combinations(enumerate(row), strength))
