"""The memory that a judge and its workers share."""

from __future__ import annotations

import pytest

from cuassay.sandbox.host.segments import _rounded

_GIB = 1 << 30


@pytest.mark.parametrize(
    "size", [0, 1, 3 << 20, _GIB, _GIB + 1, 12 * _GIB + 1, 24 * _GIB, 33 * _GIB]
)
def test_a_large_arena_takes_little_more_than_it_holds(size: int) -> None:
    taken = _rounded(size)
    assert size <= taken
    assert size <= _GIB or taken <= size + size // 8 + 1
