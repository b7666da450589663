"""Element types: names, sizes and the constants of their arithmetic. No torch."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatFormat:
    """The constants of one binary floating-point format.

    `precision` counts significand bits with the hidden one; `unit_roundoff` is
    2**-precision; `smallest_normal` and `smallest_subnormal` are positive;
    `maximum` is the largest finite value.
    """

    precision: int
    smallest_normal: float
    smallest_subnormal: float
    maximum: float

    @property
    def unit_roundoff(self) -> float:
        """Half the spacing of the format's numbers just above 1."""
        return 2.0**-self.precision


class DType(enum.StrEnum):
    """An element type by the name that torch and the problem formats give it."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"  # those of AMD's MI300: no infinity, one zero, one NaN
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT4_E2M1FN_X2 = "float4_e2m1fn_x2"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element (of one packed pair for float4_e2m1fn_x2)."""
        return _ITEMSIZE[self]

    @property
    def is_floating(self) -> bool:
        """Whether values are floating-point numbers, the 8- and 4-bit formats included."""
        return self in _FORMATS or self is DType.FLOAT4_E2M1FN_X2

    @property
    def is_liftable(self) -> bool:
        """Whether a cast to this type is mere rounding (16 bits and up), never quantisation."""
        return self in (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)

    @property
    def is_float8(self) -> bool:
        """Whether values are floats of 8 bits, whichever of the formats."""
        return self.is_floating and self.value.startswith("float8")

    @property
    def float_format(self) -> FloatFormat:
        """The constants of a floating format; KeyError for integers and packed pairs."""
        return _FORMATS[self]


_ITEMSIZE = {
    DType.FLOAT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT8_E4M3FN: 1,
    DType.FLOAT8_E5M2: 1,
    DType.FLOAT8_E4M3FNUZ: 1,
    DType.FLOAT8_E5M2FNUZ: 1,
    DType.FLOAT4_E2M1FN_X2: 1,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.INT16: 2,
    DType.INT8: 1,
    DType.UINT8: 1,
    DType.BOOL: 1,
}


def _ieee(precision: int, min_exponent: int, maximum: float) -> FloatFormat:
    return FloatFormat(
        precision=precision,
        smallest_normal=2.0**min_exponent,
        smallest_subnormal=2.0 ** (min_exponent - precision + 1),
        maximum=maximum,
    )


_FORMATS = {
    DType.FLOAT64: _ieee(53, -1022, 1.7976931348623157e308),
    DType.FLOAT32: _ieee(24, -126, (2.0 - 2.0**-23) * 2.0**127),
    DType.FLOAT16: _ieee(11, -14, 65504.0),
    DType.BFLOAT16: _ieee(8, -126, (2.0 - 2.0**-7) * 2.0**127),
    DType.FLOAT8_E4M3FN: _ieee(4, -6, 448.0),
    DType.FLOAT8_E5M2: _ieee(3, -14, 57344.0),
    DType.FLOAT8_E4M3FNUZ: _ieee(4, -7, 240.0),
    DType.FLOAT8_E5M2FNUZ: _ieee(3, -15, 57344.0),
}


def low_type(dtypes: Iterable[DType]) -> DType:
    """Return the 16-bit type that most of `dtypes` are.

    bfloat16 where none has 16 bits, as torch's autocast has it, and where both are as many.
    """
    return max((DType.BFLOAT16, DType.FLOAT16), key=list(dtypes).count)
