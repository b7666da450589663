"""Dot products of bytes, against the manual's pseudocode."""

from __future__ import annotations

import itertools

from ptxsan_fuzz.execute import run_operations

_WHOLE = 0xFFFFFFFF
_EDGES = (0, 0x01020304, 0x7F80FF01, 0x80808080, 0xFFFFFFFF, 0x00FF7F80)
_ROWS = list(itertools.product(_EDGES, _EDGES, (0, 1, 0x7FFFFFFF, _WHOLE)))


def _parts(value: int, bits: int, *, signed: bool) -> list[int]:
    parts = [value >> place & ((1 << bits) - 1) for place in range(0, 32, bits)]
    return [one - (1 << bits) if signed and one >> (bits - 1) else one for one in parts]


def _dp4a(row: tuple[int, int, int], *, first: bool, second: bool) -> int:
    a, b, c = row
    pairs = zip(_parts(a, 8, signed=first), _parts(b, 8, signed=second), strict=True)
    return (c + sum(x * y for x, y in pairs)) & _WHOLE


def _dp2a(row: tuple[int, int, int], *, high: bool, first: bool, second: bool) -> int:
    a, b, c = row
    bytes_ = _parts(b, 8, signed=second)[2 * high : 2 * high + 2]
    pairs = zip(_parts(a, 16, signed=first), bytes_, strict=True)
    return (c + sum(x * y for x, y in pairs)) & _WHOLE


def test_products_of_bytes_are_summed() -> None:
    signs = {"u32": False, "s32": True}
    kinds = list(itertools.product(signs, signs))
    operations = [f"dp4a.{a}.{b} %r1, %r2, %r3" for a, b in kinds]
    operations += [f"dp2a.{half}.{a}.{b} %r1, %r2, %r3" for half in ("lo", "hi") for a, b in kinds]
    for row, found in zip(_ROWS, run_operations(operations, _ROWS), strict=True):
        expected = [_dp4a(row, first=signs[a], second=signs[b]) for a, b in kinds]
        expected += [
            _dp2a(row, high=high, first=signs[a], second=signs[b])
            for high in (False, True)
            for a, b in kinds
        ]
        assert list(found.values()) == expected, row
