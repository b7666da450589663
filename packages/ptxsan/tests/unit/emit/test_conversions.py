"""Conversions between floats and integers, against NumPy's and the manual's rules."""

from __future__ import annotations

import math
import struct

import numpy as np

from ptxsan_fuzz.execute import run_operations

_WHOLE = 0xFFFFFFFF
_NUMBERS = (
    0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 1e-45, 65504.0, 65519.0, 65520.0, 1e-8,
    2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967296.0, 3e38,
    math.inf, -math.inf, math.nan, 16777217.0,
)  # fmt: skip
_CODES = [int.from_bytes(struct.pack("<f", one), "little") for one in _NUMBERS]
_ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _clamped(value: float, low: int, high: int) -> int:
    """PTX ISA, "cvt": out of range clamps, and a NaN becomes 0."""
    if math.isnan(value):
        return 0
    return int(min(max(value, low), high)) & _WHOLE


def test_floats_become_integers_by_every_rounding() -> None:
    rows = [(code, 0, 0) for code in _CODES]
    operations = [f"cvt.{how}.{kind}.f32 %r1" for how in _ROUNDED for kind in ("s32", "u32")]
    for number, found in zip(_NUMBERS, run_operations(operations, rows), strict=True):
        for how, rounding in _ROUNDED.items():
            with np.errstate(invalid="ignore"):
                whole = float(rounding(np.float32(number)))
            signed = _clamped(whole, -(1 << 31), (1 << 31) - 1)
            assert found[f"cvt.{how}.s32.f32 %r1"] == signed, (number, how)
            assert found[f"cvt.{how}.u32.f32 %r1"] == _clamped(whole, 0, _WHOLE), (number, how)


def test_integers_become_the_nearest_floats() -> None:
    values = (0, 1, 0xFFFFFF, 0x1000001, 0x1000003, 0x7FFFFFFF, 0x80000000, 0xFFFFFF7F, _WHOLE)
    operations = ["cvt.rn.f32.u32 %r1", "cvt.rn.f32.s32 %r1"]
    rows = [(value, 0, 0) for value in values]
    for value, found in zip(values, run_operations(operations, rows), strict=True):
        plain, signed = np.array([value], np.uint32), np.array([value], np.uint32).view(np.int32)
        assert list(found.values()) == [
            int(plain.astype(np.float32).view(np.uint32)[0]),
            int(signed.astype(np.float32).view(np.uint32)[0]),
        ], value
