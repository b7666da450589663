"""libdevice functions for Triton's interpreter, by their `__nv_` symbols, in NumPy.

libdevice's own results differ from these by its documented error of a few units in the last
place; the functions are evaluated in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuassay.build.interpreter.numerics import Array, fma
from cuassay.errors import MissingToolError

_Function = Callable[..., Array]


def _each(function: Callable[[float], float]) -> _Function:
    return np.vectorize(function, otypes=[np.float64])


def _gamma(value: float) -> float:
    return math.gamma(value) if value > 0 or not float(value).is_integer() else math.nan


_FUNCTIONS: Mapping[str, _Function] = {
    **{name: getattr(np, name) for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2",
        "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "hypot", "fmod",
        "copysign", "nextafter", "fmax", "fmin",
    )},
    "fabs": np.abs,
    "abs": np.abs,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "powi": np.power,
    "ldexp": np.ldexp,
    "remainder": lambda x, y: np.asarray(x - y * np.rint(x / y)),
    "fdim": lambda x, y: np.maximum(x - y, 0.0),
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: np.asarray(1.0 / np.sqrt(x)),
    "exp10": lambda x: np.power(10.0, x),
    "saturate": lambda x: np.nan_to_num(np.clip(x, 0.0, 1.0), nan=0.0),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "tgamma": _each(_gamma),
    "lgamma": _each(math.lgamma),
    "normcdf": _each(lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0))),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2.0)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2.0)),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "fdivide": np.divide,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
}  # fmt: skip


def evaluate_extern(symbol: str, arguments: Sequence[Array]) -> Array:
    """Apply the libdevice function `symbol` to broadcast arguments.

    Raises MissingToolError where the interpreter has no model of it.
    """
    # Reduce `__nv_fast_expf`, `__nv_expf`, `__nv_exp` and `__nv_fsqrt_rn` to the plain name.
    # Directed roundings (`_rd`, `_ru`, `_rz`) are not modelled and keep their suffix.
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    short = name.removesuffix("_rn")
    known = {*_FUNCTIONS, "fma"}
    for guess in (short, short.removesuffix("f"), short.removesuffix("d"), short[1:]):
        if guess in known:
            name = guess
            break
    if name == "fma":
        return fma(*arguments)
    if name not in _FUNCTIONS:
        raise MissingToolError(
            f"the function {symbol} has no model in Triton's interpreter; "
            "run this kernel on a machine with an NVIDIA GPU (--device cuda)"
        )
    return np.asarray(
        _FUNCTIONS[name](
            *(
                (value.astype(np.float64) if value.dtype.kind == "f" else value)
                for value in arguments
            )
        )
    )


def wrap_library(library: Any, core: Any, semantic: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions of a Triton libdevice module, callable inside the interpreter."""

    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            tensors = [semantic.to_tensor(value) for value in arguments]
            return function(*tensors, **{**options, "_semantic": semantic})

        return call

    return {
        name: bind(member)
        for name, member in vars(library).items()
        if callable(member) and core.is_builtin(member)
    }
