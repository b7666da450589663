"""The arithmetic of narrow floats on the CPU: what Triton's interpreter should compute.

NumPy arrays in, NumPy arrays out; bfloat16 and the 8-bit formats are `ml_dtypes` types. All
results are rounded once, to nearest even, as on the device: an operation on bfloat16, float16
or an 8-bit float is computed in float32 first, whose 24 significant bits make the second
rounding harmless for + - * / and the square root (24 >= 2 * 11 + 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
NARROW = frozenset(
    {
        BFLOAT16,
        E4M3,
        E5M2,
        np.dtype(ml_dtypes.float8_e4m3fnuz),
        np.dtype(ml_dtypes.float8_e5m2fnuz),
    }
)
_MAXIMUM = {E4M3: 448.0, E5M2: 57344.0}
_LOW_TF32_BITS = np.uint32(0x1FFF)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a floating type, those of `ml_dtypes` included."""
    return dtype in NARROW or dtype.kind == "f"


def widen(values: Array) -> Array:
    """Return narrow floats as float32 (exact); other arrays unchanged."""
    return values.astype(np.float32) if values.dtype in NARROW else values


def convert(values: Array, target: np.dtype[Any], *, toward_zero: bool = False) -> Array:
    """Cast to `target`: to nearest even, or toward zero.

    Casts to e4m3 and e5m2 saturate, infinities included, and NaN stays NaN, as
    `cvt.rn.satfinite` does (PTX ISA, cvt). Casts of floats to 32- and 64-bit integers
    saturate and turn NaN into 0, as `cvt.rzi` does.
    """
    if values.dtype == target:
        return values
    if is_float(values.dtype) and target.kind in "iu":
        values = widen(values)
        wide = target
        if target.itemsize < 4:  # the device converts to 32 bits and keeps the low ones
            wide = np.dtype(np.int32)
        limits = np.iinfo(wide)
        values = np.trunc(
            np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=2e19, neginf=-2e19)
        )
        inside = (values >= float(limits.min)) & (values < float(limits.max))
        clipped = np.where(values > 0, limits.max, limits.min).astype(wide)
        converted = np.where(inside, values, 0.0).astype(wide)
        result: Array = np.where(inside, converted, clipped)
        return result.astype(target)
    source = values
    if target in NARROW and values.dtype in NARROW:
        values = values.astype(np.float32)
    if target in _MAXIMUM:
        values = np.clip(values.astype(np.float32), -_MAXIMUM[target], _MAXIMUM[target])
    rounded = values.astype(target)
    if toward_zero:
        # Step back by one unit where rounding to nearest went away from zero
        bits = rounded.view(f"u{rounded.dtype.itemsize}")
        away = np.abs(rounded.astype(np.float64)) > np.abs(source.astype(np.float64))
        stepped: Array = bits - away.astype(bits.dtype)
        return stepped.view(rounded.dtype)
    return rounded


def binary(operation: Callable[[Array, Array], Array], left: Array, right: Array) -> Array:
    """Apply a NumPy operation to arrays of one type; narrow floats are rounded once."""
    if left.dtype in NARROW and right.dtype in NARROW:
        output = operation(left.astype(np.float32), right.astype(np.float32))
        return output if output.dtype == np.bool_ else convert(output, left.dtype)
    if left.dtype == right.dtype == np.bool_ and operation in (np.add, np.subtract, np.multiply):
        wide = operation(left.astype(np.int8), right.astype(np.int8))
        return (wide & 1).astype(np.bool_)  # int1 wraps around like any other integer
    return operation(left, right)


def unary(operation: Callable[[Array], Array], values: Array) -> Array:
    """Apply a NumPy function; narrow floats are widened first and rounded once after."""
    if values.dtype in NARROW:
        return convert(operation(values.astype(np.float32)), values.dtype)
    return operation(values)


def fma(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z rounded once, for types of at most 32 bits; float64 is rounded twice.

    The product of two float32 is exact in float64. The sum is rounded to odd (Boldo and
    Melquiond, 2008), which makes the final rounding to 24 bits or fewer correct.
    """
    if z.dtype == np.float64 or not is_float(z.dtype):
        return np.asarray(x * y + z)
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = z.astype(np.float64)
    total = np.asarray(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    odd = (total.view(np.uint64) & np.uint64(1)).astype(bool)
    shift = np.isfinite(total) & np.isfinite(error) & (error != 0) & ~odd
    moved = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    rounded: Array = np.where(shift, moved, total)
    return rounded.astype(z.dtype)


def truncated_tf32(values: Array) -> Array:
    """Return float32 values as the tensor cores read them: the low 13 bits ignored."""
    return (values.view(np.uint32) & ~_LOW_TF32_BITS).view(np.float32)


def tree_sum(values: Array, axis: int | None, *, keep_dims: bool = False) -> Array:
    """Sum along `axis` by halving (x[i] + x[i + n/2]), rounding every partial sum to the type.

    This is the order of a warp's butterfly reduction. A length that is no power of two is
    padded with zeros.
    """
    original = values.ndim
    if axis is None:
        values, axis = values.reshape(-1), 0
    elif not is_float(values.dtype):
        return np.asarray(np.sum(values, axis=axis, keepdims=keep_dims))
    length = values.shape[axis]
    values = np.moveaxis(values, axis, 0)
    while length > 1:
        half = (length + 1) // 2
        tail = values[half:length]
        merged = binary(np.add, values[: length - half], tail)
        values = np.concatenate([merged, values[length - half : half]]) if length % 2 else merged
        length = half
    result: Array = values[0]
    if not keep_dims:
        return result
    return (
        result.reshape((1,) * original) if original != values.ndim else np.expand_dims(result, axis)
    )


def running(operation: Callable[[Array, Array], Array], values: Array, axis: int) -> Array:
    """Return the inclusive scan of narrow floats along `axis`, rounding every step."""
    moved = np.moveaxis(values, axis, 0).copy()
    for index in range(1, moved.shape[0]):
        moved[index] = binary(operation, moved[index - 1], moved[index])
    return np.moveaxis(moved, 0, axis)


def occurrence(keys: Array) -> Array:
    """Return for each key how many equal keys stand before it: 0 for the first of its kind."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(ordered.size, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(ordered.size), 0))
    ranks = np.empty(ordered.size, dtype=np.int64)
    ranks[order] = np.arange(ordered.size) - starts
    return ranks
