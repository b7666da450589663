"""Find a workload's safetensors file and check one tensor's header; no tensor is read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.dtype import DType

_NAMES = {
    DType.FLOAT64: ("F64",),
    DType.FLOAT32: ("F32",),
    DType.FLOAT16: ("F16",),
    DType.BFLOAT16: ("BF16",),
    DType.FLOAT8_E4M3FN: ("F8_E4M3",),
    DType.FLOAT8_E5M2: ("F8_E5M2",),
    DType.FLOAT4_E2M1FN_X2: ("F4", "U8"),
    DType.INT64: ("I64",),
    DType.INT32: ("I32",),
    DType.INT16: ("I16",),
    DType.INT8: ("I8",),
    DType.UINT8: ("U8",),
    DType.BOOL: ("BOOL",),
}
_HEADER_LIMIT_BYTES = 100 * 2**20  # the format's own limit


class MissingFileError(ProblemError):
    """A stored tensor's file is not there; the rest of the problem may be whole."""


def locate(path: str, folder: Path, *, where: str) -> Path:
    """Return the file that `path` means: absolute, in `folder`, or in $FLASHINFER_TRACE_DIR.

    Where it is in none, leading components of `path` are dropped one by one, as data sets
    are often moved. Raises MissingFileError naming the folders that were tried.
    """
    given = Path(path)
    if given.is_absolute() and given.is_file():
        return given
    trace = os.environ.get("FLASHINFER_TRACE_DIR")
    roots = [folder, *([Path(trace).expanduser()] if trace else [])]
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", ".")]
    for start in range(len(parts)):
        for root in roots:
            tried = root.joinpath(*parts[start:])
            if tried.is_file():
                return tried.absolute()
    remedy = "" if trace else " or set FLASHINFER_TRACE_DIR to the folder that holds it"
    raise MissingFileError(
        f"{where}: the safetensors file '{path}' is not there (looked in "
        f"{', '.join(str(root) for root in roots)}, also with leading folders dropped); "
        f"put it there{remedy}"
    )


def tensor_facts(file: Path, *, where: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the stored dtype and the shape of every tensor of `file`. Raises ProblemError."""
    found = {}
    for name, entry in _header(file, where).items():
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if name != "__metadata__" and isinstance(dtype, str) and isinstance(shape, list):
            found[name] = dtype, tuple(int(size) for size in shape)
    return found


def stored_names(dtype: DType) -> tuple[str, ...]:
    """Return the names that safetensors stores a dtype under."""
    return _NAMES[dtype]


def check_tensor(file: Path, key: str, *, dtype: DType, shape: Sequence[int], where: str) -> None:
    """Check that `file` holds tensor `key` with `dtype` and `shape`. Raises ProblemError."""
    header = _header(file, where)
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if key not in tensors:
        raise ProblemError(f"{where}: {file}: {UnknownNameError('tensor', key, tensors)}")
    entry = tensors[key]
    stored = entry.get("dtype") if isinstance(entry, dict) else None
    if stored not in _NAMES[dtype]:
        raise ProblemError(
            f"{where}: tensor '{key}' of {file} has dtype {stored}, expected "
            f"{_NAMES[dtype][0]} ({dtype}); store it again or correct the definition"
        )
    if entry.get("shape") != list(shape):
        raise ProblemError(
            f"{where}: tensor '{key}' of {file} has shape {entry.get('shape')}, expected "
            f"{list(shape)} from the workload's axes; correct one of them"
        )


def _header(file: Path, where: str) -> dict[str, dict[str, object]]:
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if not 2 <= size <= min(_HEADER_LIMIT_BYTES, file.stat().st_size):
                raise ValueError(f"its header would have {size} bytes")
            header = json.loads(stream.read(size))
    except (OSError, ValueError, RecursionError) as failure:
        raise ProblemError(
            f"{where}: {file} is not a readable safetensors file: {failure}; store it again"
        ) from None
    if not isinstance(header, dict):
        raise ProblemError(f"{where}: {file} is not a safetensors file: no header object")
    return header
