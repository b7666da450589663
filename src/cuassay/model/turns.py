"""Several lists as one, a part of each in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_turns(groups: Iterable[Sequence[T]], *, each: int = 1) -> Iterator[T]:
    """Yield the next `each` items of every group in turn, until all are yielded."""
    every = list(groups)
    for start in range(0, max(map(len, every), default=0), each):
        for group in every:
            yield from group[start : start + each]
