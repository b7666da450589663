"""Arithmetic on codes of f16 and bf16 (and, by the same rule, f32 in the directed modes).

Each result is the exact value rounded once: the operands are exact in float64, the operation is
rounded to odd there, and `encode` rounds that into the format. PTX ISA 9.7.4 (half precision).
"""

from __future__ import annotations

import math

from ptxsan.numerics.arithmetic import odd_add, odd_div, odd_fma, odd_sqrt
from ptxsan.numerics.convert import flush32, saturate
from ptxsan.numerics.native import native
from ptxsan.numerics.rounding import FLUSH, RELU, decode, encode

SAT, FLUSH_INPUT = 8, 16  # flags beside those of `encode`


@native
def _read(code: int, index: int, flags: int) -> float:
    value = decode(code, index)
    if (flags & FLUSH_INPUT) == 0:
        return value
    if index == 0:
        return math.copysign(0.0, value) if abs(value) < 2.0**-14 else value
    return flush32(value)


@native
def _write(value: float, index: int, mode: int, flags: int) -> int:
    if (flags & SAT) != 0:
        value = saturate(value)
    return encode(value, index, mode, flags & (RELU | FLUSH))


@native
def add(a: int, b: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a + b; an exact zero sum of unlike operands is -0 in rm only."""
    x, y = _read(a, index, flags), _read(b, index, flags)
    total = odd_add(x, y)
    if total == 0.0 and mode == 2 and not (x == 0.0 and y == 0.0):
        total = -0.0
    if total == 0.0 and mode == 2 and x == 0.0 and math.copysign(1.0, x) != math.copysign(1.0, y):
        total = -0.0
    return _write(total, index, mode, flags)


@native
def multiply(a: int, b: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a * b."""
    return _write(_read(a, index, flags) * _read(b, index, flags), index, mode, flags)


@native
def multiply_add(a: int, b: int, c: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a * b + c, rounded once."""
    x, y, z = _read(a, index, flags), _read(b, index, flags), _read(c, index, flags)
    total = odd_fma(x, y, z)
    if total == 0.0 and mode == 2:
        product = x * y
        if not (product == 0.0 and math.copysign(1.0, product) == math.copysign(1.0, z) > 0.0):
            total = -0.0
    return _write(total, index, mode, flags)


@native
def divide(a: int, b: int, index: int, mode: int, flags: int) -> int:
    """Return the code of a / b."""
    return _write(odd_div(_read(a, index, flags), _read(b, index, flags)), index, mode, flags)


@native
def square_root(a: int, index: int, mode: int, flags: int) -> int:
    """Return the code of sqrt(a)."""
    return _write(odd_sqrt(_read(a, index, flags)), index, mode, flags)


@native
def extreme(a: int, b: int, index: int, largest: int, flags: int) -> int:
    """Return the code of max (largest = 1) or min (0); see `pick` for NaN and zeros.

    flags: NAN_WINS and XORSIGN as in `pick`, FLUSH and FLUSH_INPUT as in `add`.
    """
    x, y = _read(a, index, flags), _read(b, index, flags)
    return encode(pick(x, y, largest, flags), index, 0, flags & FLUSH)


NAN_WINS, XORSIGN = 32, 64


@native
def pick(x: float, y: float, largest: int, flags: int) -> float:
    """Return the larger (largest = 1) or smaller of two values; -0 is below +0.

    A NaN loses against a number unless NAN_WINS; XORSIGN compares magnitudes and gives the result
    the product's sign. PTX ISA 9.7.3 (min, max).
    """
    sign = math.copysign(1.0, x) * math.copysign(1.0, y)
    if (flags & XORSIGN) != 0:
        x, y = abs(x), abs(y)
    if x != x or y != y:
        if (flags & NAN_WINS) != 0 or (x != x and y != y):
            return math.nan
        best = y if x != x else x
    elif x == y:
        first_is_larger = math.copysign(1.0, x) >= math.copysign(1.0, y)
        best = x if first_is_larger == (largest != 0) else y
    else:
        best = x if (x > y) == (largest != 0) else y
    if (flags & XORSIGN) != 0:
        return math.copysign(best, sign)
    return best
