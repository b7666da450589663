"""What `--arg NAME=SPEC` means: arrays with contents, numbers, bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsan.api import Fresh
from ptxsan.errors import UsageError

_TYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
_ARRAY = re.compile(r"(?:(?P<how>\w+):)?(?P<type>\w+)\[(?P<shape>[\d,\s]+)\]")
_FILLS = ("out", "random", "zeros", "ones", "iota")


def parsed(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    """Return the name and the value of an argument. Raises UsageError that shows what it can be."""
    name, separator, spec = text.partition("=")
    if not separator or not name:
        raise UsageError(f"--arg {text}: expected NAME=SPEC, such as x=f32[1000] or n=1000")
    if match := _ARRAY.fullmatch(spec):
        return name, _filled(text, match, rng)
    if spec.startswith("@"):
        try:
            return name, np.ascontiguousarray(np.load(Path(spec[1:])))
        except (OSError, ValueError) as error:
            raise UsageError(f"--arg {text}: {error}; expected a .npy file") from None
    if spec == "null":
        return name, None
    try:
        if spec.startswith("hex:"):
            return name, bytes.fromhex(spec.removeprefix("hex:"))
        return name, int(spec, 0) if re.fullmatch(r"[+-]?(0x[\da-fA-F]+|\d+)", spec) else float(
            spec
        )
    except ValueError:
        raise UsageError(
            f"--arg {text}: '{spec}' is no array (f32[1000], out:f32[8,8]), no number, no file "
            "(@x.npy), no bytes (hex:00ff) and not null"
        ) from None


def _filled(text: str, match: re.Match[str], rng: np.random.Generator) -> Any:
    kind, how = match["type"], match["how"] or "random"
    if kind not in _TYPES or how not in _FILLS:
        raise UsageError(
            f"--arg {text}: expected a type of {', '.join(_TYPES)} and, before it, perhaps one of "
            f"{', '.join(one + ':' for one in _FILLS)}"
        )
    shape = tuple(int(one) for one in match["shape"].split(",") if one.strip())
    dtype = _TYPES[kind]
    if how == "out":
        array: NDArray[Any] = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8)[:] = 0xFF
        return Fresh(array=array)
    values: NDArray[Any]
    if how == "random":
        floating = kind in ("f16", "bf16", "f32", "f64")
        values = rng.standard_normal(shape) if floating else rng.integers(0, 100, shape)
        values = values > 49 if kind == "bool" else values
    else:
        values = {"zeros": np.zeros, "ones": np.ones}.get(
            how, lambda shape: np.arange(int(np.prod(shape))).reshape(shape)
        )(shape)
    if kind == "bf16":
        # The codes of the nearest bfloat16 numbers.
        bits = values.astype(np.float32).view(np.uint32)
        rounded = bits + 0x7FFF + (bits >> 16 & 1)
        return np.ascontiguousarray((rounded >> 16).astype(np.uint16))
    return np.ascontiguousarray(values.astype(dtype))
