"""Arithmetic on 32-bit integers around every border, against the manual's pseudocode."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ptxsan_fuzz.execute import run_operations

_WHOLE = 0xFFFFFFFF
_EDGES = (0, 1, 2, 7, 0x7FFF, 0x8000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, _WHOLE)
_ROWS = [(a, b, c) for a, b in itertools.product(_EDGES, _EDGES) for c in (0, 5, 0x80000000)]


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _low24(value: int, *, signed: bool) -> int:
    value &= 0xFFFFFF
    return value - (1 << 24) if signed and value >> 23 else value


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _clamped(value: int) -> int:
    return min(max(value, -(1 << 31)), (1 << 31) - 1)


_Rule = Callable[[int, int, int], int]
# PTX ISA, "Integer Arithmetic Instructions".
_RULES: dict[str, _Rule] = {
    "add.u32 %r1, %r2": lambda a, b, c: a + b,
    "add.sat.s32 %r1, %r2": lambda a, b, c: _clamped(_signed(a) + _signed(b)),
    "sub.sat.s32 %r1, %r2": lambda a, b, c: _clamped(_signed(a) - _signed(b)),
    "mul.lo.s32 %r1, %r2": lambda a, b, c: a * b,
    "mul.hi.u32 %r1, %r2": lambda a, b, c: a * b >> 32,
    "mul.hi.s32 %r1, %r2": lambda a, b, c: _signed(a) * _signed(b) >> 32,
    "mad.lo.u32 %r1, %r2, %r3": lambda a, b, c: a * b + c,
    "mad.hi.s32 %r1, %r2, %r3": lambda a, b, c: (_signed(a) * _signed(b) >> 32) + c,
    "mad.hi.sat.s32 %r1, %r2, %r3": lambda a, b, c: _clamped(
        (_signed(a) * _signed(b) >> 32) + _signed(c)
    ),
    "mul24.lo.u32 %r1, %r2": lambda a, b, c: _low24(a, signed=False) * _low24(b, signed=False),
    "mul24.hi.s32 %r1, %r2": lambda a, b, c: _low24(a, signed=True) * _low24(b, signed=True) >> 16,
    "sad.s32 %r1, %r2, %r3": lambda a, b, c: c + abs(_signed(a) - _signed(b)),
    "sad.u32 %r1, %r2, %r3": lambda a, b, c: c + abs(a - b),
    "min.s32 %r1, %r2": lambda a, b, c: min(_signed(a), _signed(b)),
    "max.u32 %r1, %r2": lambda a, b, c: max(a, b),
    "abs.s32 %r1": lambda a, b, c: abs(_signed(a)),
    "neg.s32 %r1": lambda a, b, c: -_signed(a),
    "cvt.u32.u8 %r1": lambda a, b, c: a & 0xFF,
    "cvt.s32.s16 %r1": lambda a, b, c: (a & 0xFFFF) - ((a & 0x8000) << 1),
    "cvt.sat.s8.s32 %r1": lambda a, b, c: min(max(_signed(a), -128), 127),
    "cvt.sat.u16.s32 %r1": lambda a, b, c: min(max(_signed(a), 0), 0xFFFF),
}


def test_arithmetic_follows_the_manual() -> None:
    for row, found in zip(_ROWS, run_operations(list(_RULES), _ROWS), strict=True):
        expected = {name: rule(*row) & _WHOLE for name, rule in _RULES.items()}
        assert found == expected, row


def test_division_truncates_and_the_remainder_has_the_dividend_s_sign() -> None:
    rows = [row for row in _ROWS if row[1] and (row[0], row[1]) != (0x80000000, _WHOLE)]
    rules: dict[str, _Rule] = {
        "div.u32 %r1, %r2": lambda a, b, c: a // b,
        "rem.u32 %r1, %r2": lambda a, b, c: a % b,
        "div.s32 %r1, %r2": lambda a, b, c: _truncated(_signed(a), _signed(b)),
        "rem.s32 %r1, %r2": lambda a, b, c: (
            _signed(a) - _truncated(_signed(a), _signed(b)) * _signed(b)
        ),
    }
    for row, found in zip(rows, run_operations(list(rules), rows), strict=True):
        assert found == {name: rule(*row) & _WHOLE for name, rule in rules.items()}, row
