"""Sums, products, quotients and roots rounded to odd, and float64 in the directed modes.

`odd_*` return the float64 next to the exact result whose last bit is 1 unless the result is exact:
`rounding.encode` then gives the correctly rounded result in any smaller format and mode. Operands
are values of formats of at most 24 bits, so products are exact in float64 (no underflow: the
smallest, 2**-298, is normal).
`directed` gives float64 results in the modes rz, rm and rp from the sign of the rounding error
(Knuth's TwoSum; residuals by fma: Handbook of Floating-Point Arithmetic, 2nd ed., section 4.4).
"""

from __future__ import annotations

import math

from ptxsan.numerics.native import bits64, float64, fma, native

_SMALL = 2.0**-900
_LARGE = 2.0**900
_SCALE = 2.0**108
_HALF_WAY = 2.0**600  # twice: 2**1200, more than float64 holds


@native
def sum_error(a: float, b: float, total: float) -> float:
    """Return (a + b) - total exactly, where total = fl(a + b) is finite."""
    part = total - a
    return (a - (total - part)) + (b - part)


@native
def to_odd(nearest: float, error: float) -> float:
    """Return the round-to-odd neighbour of a nearest result whose exact value is off by `error`."""
    if error == 0.0 or not math.isfinite(nearest):
        return nearest
    bits = bits64(nearest)
    if (bits & 1) != 0:
        return nearest
    return float64(bits + 1 if (error > 0.0) == (nearest > 0.0) else bits - 1)


@native
def odd_add(a: float, b: float) -> float:
    """Return a + b rounded to odd."""
    total = a + b
    if not math.isfinite(total):
        return total
    return to_odd(total, sum_error(a, b, total))


@native
def odd_fma(a: float, b: float, c: float) -> float:
    """Return a * b + c rounded to odd; a * b must be exact in float64."""
    return odd_add(a * b, c)


@native
def odd_div(a: float, b: float) -> float:
    """Return a / b rounded to odd; a and b have at most 24 bits and normal quotients."""
    quotient = a / b
    if not math.isfinite(quotient) or quotient == 0.0 or not math.isfinite(b):
        return quotient
    residual = fma(-quotient, b, a)
    return to_odd(quotient, residual if b > 0.0 else -residual)


@native
def odd_sqrt(a: float) -> float:
    """Return sqrt(a) rounded to odd; NaN below zero."""
    if a < 0.0:
        return -math.nan  # the default NaN has its sign set
    root = math.sqrt(a)
    if root == 0.0 or not math.isfinite(root):
        return root
    return to_odd(root, fma(-root, root, a))


@native
def step(value: float, up: bool) -> float:
    """Return the next float64 above or below a finite value."""
    bits = bits64(value)
    if value == 0.0:
        return float64(1) if up else float64(-9223372036854775807)
    return float64(bits + 1 if (value > 0.0) == up else bits - 1)


@native
def steer(nearest: float, error: float, mode: int) -> float:
    """Return the directed rounding (rz, rm, rp) of nearest + error, |error| under one ulp."""
    if mode == 0 or error == 0.0 or not math.isfinite(nearest):
        return nearest
    down = mode == 2 or (mode == 1 and (nearest > 0.0 or (nearest == 0.0 and error > 0.0)))
    if down:
        return step(nearest, False) if error < 0.0 else nearest
    return step(nearest, True) if error > 0.0 else nearest


@native
def bounded(value: float, mode: int) -> float:
    """Return what a directed mode makes of an overflow to `value` = +-inf of finite operands."""
    largest = float64(0x7FEFFFFFFFFFFFFF)
    if mode == 1 or (mode == 2 and value > 0.0):
        return largest if value > 0.0 else -largest
    if mode == 3 and value < 0.0:
        return -largest
    return value


@native
def add64(a: float, b: float, mode: int) -> float:
    """Return a + b as float64 in a Rounding mode; an exact zero sum is -0 in rm."""
    total = a + b
    if mode == 0 or not (math.isfinite(a) and math.isfinite(b)):
        return total
    if not math.isfinite(total):
        return bounded(total, mode)
    if total == 0.0 and mode == 2 and not (a == 0.0 and b == 0.0 and bits64(a) == bits64(b)):
        return -0.0
    return steer(total, sum_error(a, b, total), mode)


@native
def mul64(a: float, b: float, mode: int) -> float:
    """Return a * b as float64 in a Rounding mode."""
    product = a * b
    if mode == 0 or not (math.isfinite(a) and math.isfinite(b)) or a == 0.0 or b == 0.0:
        return product
    if not math.isfinite(product):
        return bounded(product, mode)
    if abs(product) > _SMALL:
        return steer(product, fma(a, b, -product), mode)
    # The error of a tiny product is below the subnormals: look at it enlarged.
    if abs(a) < abs(b):
        a, b = b, a
    if abs(a) < 1.0:  # both small: enlarge both
        enlarged = fma(a * _LARGE, b * _LARGE, -(product * _LARGE) * _LARGE)
    else:
        enlarged = fma(a, b * _LARGE, -(product * _LARGE))
    return steer(product, enlarged, mode)


@native
def div64(a: float, b: float, mode: int) -> float:
    """Return a / b as float64 in a Rounding mode."""
    quotient = a / b
    if mode == 0 or not (math.isfinite(a) and math.isfinite(b)) or a == 0.0 or b == 0.0:
        return quotient
    if not math.isfinite(quotient):
        return bounded(quotient, mode)
    if abs(b) < _SMALL and abs(a) < 1.0:  # enlarge both: the quotient stays
        a *= _LARGE
        b *= _LARGE
    if abs(a) < _SMALL:
        a *= _LARGE
        scaled = quotient * _LARGE
        residual = fma(-scaled, b, a)
    elif abs(b) > _LARGE:
        b /= _LARGE
        residual = fma(-quotient, b, a / _LARGE)
        if abs(quotient) < _SMALL:
            residual = fma(-(quotient * _LARGE), b, a)
    else:
        residual = fma(-quotient, b, a)
    return steer(quotient, residual if b > 0.0 else -residual, mode)


@native
def sqrt64(a: float, mode: int) -> float:
    """Return sqrt(a) as float64 in a Rounding mode."""
    if a < 0.0:
        return -math.nan  # the default NaN has its sign set
    root = math.sqrt(a)
    if mode == 0 or root == 0.0 or not math.isfinite(root):
        return root
    if a < _SMALL:  # a power of four keeps the root's digits
        return steer(root, fma(-(root * _SCALE), root * _SCALE, a * _SCALE * _SCALE), mode)
    return steer(root, fma(-root, root, a), mode)


@native
def fma64(a: float, b: float, c: float, mode: int) -> float:
    """Return a * b + c as float64 in a Rounding mode.

    The sign of the error comes from the exact product (two float64) and TwoSums; products below
    2**-900 are enlarged first.
    """
    nearest = fma(a, b, c)
    if mode == 0 or not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return nearest
    if not math.isfinite(nearest):
        return bounded(nearest, mode)
    product = a * b
    if product == 0.0 and (a == 0.0 or b == 0.0):
        return add64(product, c, mode)
    if abs(product) > _SMALL:
        error = fma_error(a, b, c, nearest)
    elif abs(c) < 2.0**-300:
        enlarged = nearest * _HALF_WAY * _HALF_WAY
        error = fma_error(a * _HALF_WAY, b * _HALF_WAY, c * _HALF_WAY * _HALF_WAY, enlarged)
    else:  # the product is far below the last bit of c
        error = math.copysign(1.0, a) * math.copysign(1.0, b)
    if nearest == 0.0 and error == 0.0:
        return add64(product, c, mode)
    return steer(nearest, error, mode)


@native
def fma_error(a: float, b: float, c: float, nearest: float) -> float:
    """Return a number with the sign of a * b + c - nearest; no intermediate may underflow."""
    high = a * b
    low = fma(a, b, -high)
    total = high + c
    rest = sum_error(high, c, total)
    difference = total - nearest
    part = rest + low
    part_rest = sum_error(rest, low, part)
    whole = difference + part
    return whole + (sum_error(difference, part, whole) + part_rest)
