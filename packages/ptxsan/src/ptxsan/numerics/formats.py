"""The floating formats that PTX knows, as numbers: bits, precision, exponent range, special codes.

Sources: PTX ISA 9.0, section 5.2 (types) and 9.7.9.21 (cvt); IEEE 754-2019 for the binary formats;
"FP8 Formats for Deep Learning" (Micikevicius et al., 2022) for e4m3 and e5m2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Rounding(IntEnum):
    """A PTX rounding modifier; the value is what the compiled functions take."""

    RN = 0  # nearest, ties to even
    RZ = 1  # toward zero
    RM = 2  # toward minus infinity
    RP = 3  # toward plus infinity
    RNA = 4  # nearest, ties away from zero


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatFormat:
    """A binary floating format.

    `precision` counts significand bits with the hidden one. `min_exponent` is the exponent of the
    smallest normal number; `max_finite` the largest finite value; `nan` the code that PTX writes
    for a NaN; `infinity` the code of +inf, or None where the format has none.
    """

    name: str
    index: int
    bits: int
    precision: int
    min_exponent: int
    max_finite: float
    nan: int
    infinity: int | None

    @property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next number: 2**-precision."""
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        """2**min_exponent."""
        return 2.0**self.min_exponent


F16 = FloatFormat(
    name="f16", index=0, bits=16, precision=11, min_exponent=-14, max_finite=65504.0,
    nan=0x7FFF, infinity=0x7C00,
)  # fmt: skip
BF16 = FloatFormat(
    name="bf16", index=1, bits=16, precision=8, min_exponent=-126,
    max_finite=(2.0 - 2.0**-7) * 2.0**127, nan=0x7FFF, infinity=0x7F80,
)  # fmt: skip
F32 = FloatFormat(
    name="f32", index=2, bits=32, precision=24, min_exponent=-126,
    max_finite=(2.0 - 2.0**-23) * 2.0**127, nan=0x7FFFFFFF, infinity=0x7F800000,
)  # fmt: skip
# TF32 lives in a 32-bit register whose low 13 bits are zero.
TF32 = FloatFormat(
    name="tf32", index=3, bits=32, precision=11, min_exponent=-126,
    max_finite=(2.0 - 2.0**-10) * 2.0**127, nan=0x7FFFFFFF, infinity=0x7F800000,
)  # fmt: skip
E4M3 = FloatFormat(
    name="e4m3", index=4, bits=8, precision=4, min_exponent=-6, max_finite=448.0,
    nan=0x7F, infinity=None,
)  # fmt: skip
E5M2 = FloatFormat(
    name="e5m2", index=5, bits=8, precision=3, min_exponent=-14, max_finite=57344.0,
    nan=0x7F, infinity=0x7C,
)  # fmt: skip
F64 = FloatFormat(
    name="f64", index=6, bits=64, precision=53, min_exponent=-1022,
    max_finite=(2.0 - 2.0**-52) * 2.0**1023, nan=0xFFF8000000000000,
    infinity=0x7FF0000000000000,
)  # fmt: skip
# Formats without infinities and NaN: a NaN becomes the largest number (PTX ISA, cvt).
E2M1 = FloatFormat(
    name="e2m1", index=7, bits=4, precision=2, min_exponent=0, max_finite=6.0, nan=0x7,
    infinity=None,
)  # fmt: skip
E3M2 = FloatFormat(
    name="e3m2", index=8, bits=6, precision=3, min_exponent=-2, max_finite=28.0, nan=0x1F,
    infinity=None,
)  # fmt: skip
E2M3 = FloatFormat(
    name="e2m3", index=9, bits=6, precision=4, min_exponent=0, max_finite=7.5, nan=0x1F,
    infinity=None,
)  # fmt: skip

ALL = (F16, BF16, F32, TF32, E4M3, E5M2, F64, E2M1, E3M2, E2M3)
BY_NAME = {format_.name: format_ for format_ in ALL}
