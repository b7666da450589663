"""Repaired operations of Triton's InterpreterBuilder, installed by `triton_interpreter`.

Each function below replaces the method of the same name and has its signature. A handle holds
a NumPy array (`data`) and a Triton type (`dtype`); narrow floats are held as `ml_dtypes`
arrays instead of raw integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from cuassay.build.interpreter import numerics
from cuassay.build.interpreter.libdevice import evaluate_extern
from cuassay.build.interpreter.numerics import Array


def numpy_types(language: Any) -> Mapping[Any, np.dtype[Any]]:
    """Return the NumPy type of every narrow float of `triton.language`."""
    return {
        language.bfloat16: np.dtype(ml_dtypes.bfloat16),
        language.float8e5: np.dtype(ml_dtypes.float8_e5m2),
        language.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
        language.float8e4b8: np.dtype(ml_dtypes.float8_e4m3fnuz),
        language.float8e5b16: np.dtype(ml_dtypes.float8_e5m2fnuz),
    }


def numpy_type_function(language: Any, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `_get_np_dtype` with narrow floats mapped to `ml_dtypes`."""
    narrow = numpy_types(language)

    def numpy_type(triton_type: Any) -> Any:
        element = getattr(triton_type, "element_ty", triton_type)  # of a block
        if any(isinstance(each, language.pointer_type) for each in (triton_type, element)):
            return original(triton_type)  # pointers cannot be hashed; bool ones are cast to int8
        return narrow[element] if element in narrow else original(triton_type)

    return numpy_type


def methods(module: Any) -> dict[str, Callable[..., Any]]:
    """Return the repaired methods, bound to the types of the interpreter `module`."""
    handle, toward_zero = module.TensorHandle, module._ir.ROUNDING_MODE.RTZ

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        converted = numerics.convert(source.data, module._get_np_dtype(target))
        return handle(converted, target.scalar)

    def create_fp_to_fp(self: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        data = numerics.convert(
            source.data, module._get_np_dtype(target), toward_zero=rounding_mode == toward_zero
        )
        return handle(data, target.scalar)

    return {
        "cast_impl": cast_impl,
        "create_fp_to_fp": create_fp_to_fp,
        **_arithmetic(module),
        **_others(module),
    }


def _arithmetic(module: Any) -> dict[str, Callable[..., Any]]:
    handle, language = module.TensorHandle, module.tl

    def binary_op(self: Any, left: Any, right: Any, operation: Any) -> Any:
        output = numerics.binary(operation, left.data, right.data)
        if output.dtype == np.bool_:
            return handle(output, language.int1)
        kind = left.dtype.scalar
        if not module._validate_np_data_size(output, kind):
            output = output.astype(module._get_np_dtype(kind))
        return handle(output, kind)

    def unary_op(self: Any, value: Any, operation: Any) -> Any:
        return handle(numerics.unary(operation, value.data), value.dtype.scalar)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        return handle(numerics.fma(x.data, y.data, z.data), z.dtype.scalar)

    def create_minnumf(self: Any, left: Any, right: Any) -> Any:
        return self.binary_op(left, right, np.fmin)  # a NaN loses against a number

    def create_maxnumf(self: Any, left: Any, right: Any) -> Any:
        return self.binary_op(left, right, np.fmax)

    def create_clampf(self: Any, value: Any, low: Any, high: Any, propagate: Any) -> Any:
        if propagate == module._ir.PROPAGATE_NAN.NONE:
            return self.binary_op(self.binary_op(value, low, np.fmax), high, np.fmin)
        return self.binary_op(self.binary_op(value, low, np.maximum), high, np.minimum)

    def create_rsqrt(self: Any, value: Any) -> Any:
        return self.unary_op(value, lambda data: np.reciprocal(np.sqrt(data)))

    replaced = (
        binary_op,
        unary_op,
        create_fma,
        create_minnumf,
        create_maxnumf,
        create_clampf,
        create_rsqrt,
    )
    return {function.__name__: function for function in replaced}


def _others(module: Any) -> dict[str, Callable[..., Any]]:
    handle, language = module.TensorHandle, module.tl
    rounds_to_tf32 = module._ir.INPUT_PRECISION.TF32

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, *rest: Any) -> Any:
        left, right = numerics.widen(a.data), numerics.widen(b.data)
        if left.dtype == np.float32 == a.data.dtype and input_precision == rounds_to_tf32:
            left, right = numerics.truncated_tf32(left), numerics.truncated_tf32(right)
        # Left @ right + accumulator; floats of at most 32 bits are summed in float32. float16
        # operands have exact products in float32. A float16 accumulator is rounded once.
        if d.data.dtype.kind in "iu":
            matmul_add = np.asarray(
                np.matmul(left.astype(np.int32), right.astype(np.int32)) + d.data
            )
        else:
            wide = np.float64 if d.data.dtype == np.float64 else np.float32
            total = np.matmul(left.astype(wide), right.astype(wide)) + d.data.astype(wide)
            matmul_add = np.asarray(total.astype(d.data.dtype))
        return handle(matmul_add, d.dtype.scalar)

    def get_bf16(self: Any, value: float) -> Any:
        return handle(np.array([value], dtype=ml_dtypes.bfloat16), language.bfloat16)

    def get_all_ones_value(self: Any, kind: Any) -> Any:
        dtype = module._get_np_dtype(kind)
        if dtype.kind not in "iub":
            raise TypeError(f"unsupported type {kind}")
        ones = np.ones(1, dtype=dtype) if dtype.kind == "b" else ~np.zeros(1, dtype=dtype)
        return handle(ones, kind.scalar)

    def create_extern_elementwise(
        self: Any, library: str, path: str, symbol: str, arguments: Any, kind: Any, pure: bool
    ) -> Any:
        result = evaluate_extern(symbol, [numerics.widen(value.data) for value in arguments])
        return handle(numerics.convert(result, module._get_np_dtype(kind)), kind.scalar)

    replaced = (create_dot, get_bf16, get_all_ones_value, create_extern_elementwise)
    return {function.__name__: function for function in replaced}


def convert_float(module: Any) -> Callable[..., Array]:
    """Return a replacement for `_convert_float`, which other parts of the interpreter call."""
    toward_zero = module._ir.ROUNDING_MODE.RTZ

    def convert(values: Array, source: Any, target: Any, rounding_mode: Any) -> Array:
        typed = values.view(module._get_np_dtype(source))
        wanted = module._get_np_dtype(target)
        return numerics.convert(typed, wanted, toward_zero=rounding_mode == toward_zero)

    return convert


def mxfp_to_float32(module: Any) -> Callable[[Any], Array]:
    """Return a replacement for `_mxfp_value_handle_to_float32` (Triton 3.8 and newer)."""

    def decode(value: Any) -> Array:
        if value.dtype == module.tl.uint8:
            packed: Array = module._e2m1_to_f32(value.data)
            return packed
        return numerics.widen(value.data).astype(np.float32)

    return decode
