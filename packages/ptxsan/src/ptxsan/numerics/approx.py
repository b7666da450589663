"""The approximate instructions: the correctly rounded value, and how far hardware may be off.

A PTX `*.approx` result is an interval. The machine returns the value that correct rounding gives
and carries the width. `ulps` is the largest distance that PTX ISA 9.7.3 admits or that was measured
on an H200 (the larger; docs/machine-numerics.md), `absolute` the same where the manual states an
absolute error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxsan.numerics.native import native


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Half the width of an approximate result around the correctly rounded one.

    max(ulps * ulp(result), absolute + relative * |argument|): sin and cos reduce their argument
    with an error that grows with it.
    """

    ulps: float
    absolute: float = 0.0
    relative: float = 0.0

    def around(self, value: float, argument: float = 0.0) -> float:
        """Return the half width at a float32 `value`."""
        return max(self.ulps * ulp32(value), self.absolute + self.relative * abs(argument))


# Keys are the opcode without .ftz; div.full is counted here although PTX does not spell it approx.
WIDTHS = {
    "ex2.approx.f32": Width(ulps=2.5),
    "lg2.approx.f32": Width(ulps=2.5, absolute=2.0**-22),
    "rcp.approx.f32": Width(ulps=1.0),
    "rsqrt.approx.f32": Width(ulps=2.0),
    "sqrt.approx.f32": Width(ulps=1.5),
    "div.approx.f32": Width(ulps=2.0),
    "div.full.f32": Width(ulps=2.0),
    "sin.approx.f32": Width(ulps=0.0, absolute=2.0**-20.5, relative=2.0**-22),
    "cos.approx.f32": Width(ulps=0.0, absolute=2.0**-20.5, relative=2.0**-22),
    "tanh.approx.f32": Width(ulps=0.0, absolute=2.0**-11),
    "rcp.approx.f64": Width(ulps=2.0**33),
    "rsqrt.approx.f64": Width(ulps=2.0**33),
    "ex2.approx.f16": Width(ulps=1.0),
    "tanh.approx.f16": Width(ulps=1.0, absolute=2.0**-10.987),
    "ex2.approx.bf16": Width(ulps=1.0),
    "tanh.approx.bf16": Width(ulps=1.0, absolute=2.0**-8),
}


def ulp32(value: float) -> float:
    """Return the distance from |value| to the next float32 of larger magnitude."""
    if value == 0.0 or not math.isfinite(value):
        return 2.0**-149
    _, exponent = math.frexp(value)
    return math.ldexp(1.0, max(exponent - 24, -149))


@native
def exp2(x: float) -> float:
    """Return 2**x in float64 (within 1 ulp), inf above and 0 far below."""
    if x > 1100.0:
        return math.inf
    if x < -1200.0:
        return 0.0
    return math.pow(2.0, x)


@native
def log2(x: float) -> float:
    """Return log2(x): -inf at zeros, NaN below."""
    if x == 0.0:
        return -math.inf
    return math.log2(x) if x > 0.0 else math.nan


@native
def reciprocal(x: float) -> float:
    """Return 1 / x, infinities of the sign of zero at zeros."""
    return 1.0 / x


@native
def reciprocal_root(x: float) -> float:
    """Return 1 / sqrt(x): an infinity of x's sign at zeros, NaN below."""
    if x == 0.0:
        return math.copysign(math.inf, x)
    return 1.0 / math.sqrt(x) if x > 0.0 else math.nan


@native
def root(x: float) -> float:
    """Return sqrt(x), NaN below zero; -0 stays -0."""
    return math.sqrt(x) if x >= 0.0 else math.nan


@native
def sine(x: float) -> float:
    """Return sin(x); NaN at infinities."""
    return math.sin(x) if math.isfinite(x) else math.nan


@native
def cosine(x: float) -> float:
    """Return cos(x); NaN at infinities."""
    return math.cos(x) if math.isfinite(x) else math.nan


@native
def tangent_h(x: float) -> float:
    """Return tanh(x)."""
    return math.tanh(x)
