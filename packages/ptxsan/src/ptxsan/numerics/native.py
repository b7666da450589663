"""How this package compiles: a typed decorator over numba, and four bit casts that numba lacks.

A function decorated with `native` is plain Python to a type checker and machine code to everybody
else, and may be called from other compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from numba import types
from numba.extending import intrinsic

from ptxsan.runtime.native import native as _runtime_native

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    def native(function: F) -> F:
        """Compile a function with numba; the type stays."""

    def fma(a: float, b: float, c: float, /) -> float:
        """Return a * b + c, rounded once (float64)."""

    def bits64(value: float, /) -> int:
        """Return the 64 bits of a float64, as int64."""

    def float64(bits: int, /) -> float:
        """Return the float64 with these 64 bits."""

    def bits32(value: float, /) -> int:
        """Return the 32 bits of `value` as float32, as uint32 widened to int64."""

    def float32(bits: int, /) -> float:
        """Return, as float64, the float32 whose bits are the low 32 of `bits`."""

else:
    native = _runtime_native

    @intrinsic
    def fma(typing_context, a, b, c):
        """Return a * b + c, rounded once (float64)."""

        def generate(context, builder, signature, arguments):
            return builder.fma(*arguments)

        return types.float64(types.float64, types.float64, types.float64), generate

    def _cast(source, target, convert):
        def generate(context, builder, signature, arguments):
            return convert(context, builder, arguments[0])

        return target(source), generate

    @intrinsic
    def bits64(typing_context, value):
        """Return the 64 bits of a float64, as int64."""
        return _cast(
            types.float64,
            types.int64,
            lambda c, b, v: b.bitcast(v, c.get_value_type(types.int64)),
        )

    @intrinsic
    def float64(typing_context, bits):
        """Return the float64 with these 64 bits."""
        return _cast(
            types.int64,
            types.float64,
            lambda c, b, v: b.bitcast(v, c.get_value_type(types.float64)),
        )

    @intrinsic
    def bits32(typing_context, value):
        """Return the 32 bits of `value` as float32 (rounded to nearest), widened to int64."""

        def convert(context, builder, value):
            single = builder.fptrunc(value, context.get_value_type(types.float32))
            word = builder.bitcast(single, context.get_value_type(types.int32))
            return builder.zext(word, context.get_value_type(types.int64))

        return _cast(types.float64, types.int64, convert)

    @intrinsic
    def float32(typing_context, bits):
        """Return, as float64, the float32 whose bits are the low 32 of `bits`."""

        def convert(context, builder, value):
            word = builder.trunc(value, context.get_value_type(types.int32))
            single = builder.bitcast(word, context.get_value_type(types.float32))
            return builder.fpext(single, context.get_value_type(types.float64))

        return _cast(types.int64, types.float64, convert)
