"""Comparisons of integers and choices by them, against the manual's pseudocode."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

from ptxsan_fuzz.execute import run_operations

_WHOLE = 0xFFFFFFFF
_EDGES = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, _WHOLE)
_ROWS = list(itertools.product(_EDGES, _EDGES, (0, 1, 0x80000000)))
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def test_orders_are_of_signed_or_of_unsigned_numbers() -> None:
    signed = {f"set.{name}.u32.s32 %r1, %r2": order for name, order in _ORDERS.items()}
    plain = {f"set.{name}.u32.u32 %r1, %r2": order for name, order in _ORDERS.items()}
    plain |= {f"set.{name}.u32.u32 %r1, %r2": _ORDERS[same] for name, same in _UNSIGNED.items()}
    for (a, b, c), found in zip(_ROWS, run_operations([*signed, *plain], _ROWS), strict=True):
        expected = {name: order(_signed(a), _signed(b)) for name, order in signed.items()}
        expected |= {name: order(a, b) for name, order in plain.items()}
        assert found == {name: _WHOLE if holds else 0 for name, holds in expected.items()}, (
            a,
            b,
            c,
        )


def test_a_choice_is_made_by_the_sign_of_the_third() -> None:
    (name,) = operations = ["slct.u32.s32 %r1, %r2, %r3"]
    for (a, b, c), found in zip(_ROWS, run_operations(operations, _ROWS), strict=True):
        assert found[name] == (a if _signed(c) >= 0 else b)
