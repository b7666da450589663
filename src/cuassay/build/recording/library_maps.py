"""Tensor maps that a library encodes for the GPU, remembered in the PTX machine's own form.

A library has the driver encode a map once and passes its 128 bytes to many launches, by themselves
or in a structure. What those bytes mean is nowhere documented, so the encoding is watched: through
the library's slot of the driver's function, or through the address of it that the library asks the
runtime for. Reference: CUDA driver API, cuTensorMapEncodeTiled; CUDA Runtime API,
cudaGetDriverEntryPoint.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cuassay.build.cuda.driver import ELEMENT_NUMBERS
from cuassay.build.cuda.tile_maps import Encoded, hardware_map, machine_bytes
from cuassay.build.recording.slots import redirect
from cuassay.errors import CuassayError, MissingToolError

_ENCODE, _ENCODE_WORDS = "cuTensorMapEncodeTiled", 12
_ASK = {"cudaGetDriverEntryPoint": 4, "cudaGetDriverEntryPointByVersion": 5}
_WORDS = {_ENCODE: _ENCODE_WORDS, **_ASK, **{f"{name}_ptsz": n for name, n in _ASK.items()}}
_BYTES, _ALIGNMENT, _MOST = 128, 64, 4096
_SWIZZLES = (0, 32, 64, 128)  # CUtensorMapSwizzle
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_uint64] * _ENCODE_WORDS))
_known: dict[bytes, bytes | str] = {}  # the GPU's bytes: the machine's, or why there are none
_watched: set[Path] = set()
_kept: list[Any] = []  # callbacks live as long as the process: libraries hold their addresses


def watch_maps(library: Path) -> None:
    """Remember the tensor maps that a loaded library encodes from now on."""
    if library not in _watched and redirect(library, _WORDS, _called):
        _watched.add(library)


def in_machine_form(argument: bytes) -> tuple[bytes, int]:
    """Return a launch's argument with its tensor maps in the machine's form, and their number.

    Raises MissingToolError for a map that the machine does not know.
    """
    made, count = bytearray(argument), 0
    for start in range(0, len(argument) - _BYTES + 1, _ALIGNMENT):
        found = _known.get(argument[start : start + _BYTES])
        if isinstance(found, str):
            raise MissingToolError(found)
        if found is not None:
            made[start : start + _BYTES] = found
            count += 1
    return bytes(made), count


def _called(name: str, words: Sequence[int], go: Callable[[], int]) -> int:
    status = go()
    if status:
        return status
    if name == _ENCODE:
        _remember(words)
    elif ctypes.string_at(words[0]) == _ENCODE.encode():
        place = ctypes.c_uint64.from_address(words[1])
        if place.value:
            place.value = _through(place.value)
    return status


def _through(address: int) -> int:
    """Return the address of a function that encodes as the driver's at `address`, and remembers."""
    real = _FUNCTION(address)

    def encode(*words: int) -> int:
        status = int(real(*words))
        if not status:
            _remember(words)
        return status

    callback = _FUNCTION(encode)
    _kept.extend((callback, real))
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def _remember(words: Sequence[int]) -> None:
    """Keep a map that the driver has encoded; nothing is raised into the library's code."""
    if len(_known) >= _MOST:
        _known.clear()
    _known[ctypes.string_at(words[0], _BYTES)] = machine_form(words)


def machine_form(words: Sequence[int]) -> bytes | str:
    """Return the machine's 128 bytes of what cuTensorMapEncodeTiled is given, or why not."""
    _, element, rank, address, sizes, strides, box, steps, interleave, swizzle, _, fill = words
    element, rank, interleave, swizzle, fill = (
        word & 0xFFFFFFFF for word in (element, rank, interleave, swizzle, fill)
    )
    names = {number: name for name, number in ELEMENT_NUMBERS.items()}
    if element not in names or interleave or swizzle >= len(_SWIZZLES):
        return (
            f"a tensor map of element type {element}, interleave {interleave} and swizzle "
            f"{swizzle}, which the PTX machine does not know"
        )
    try:
        return machine_bytes(
            Encoded(
                address=address, element=names[element], sizes=_numbers(sizes, rank, 8),
                strides=_numbers(strides, rank - 1, 8), box=_numbers(box, rank, 4),
                steps=_numbers(steps, rank, 4), swizzle=_SWIZZLES[swizzle], nan_fill=bool(fill),
            )
        )  # fmt: skip
    except CuassayError as error:
        return f"a tensor map that the PTX machine does not know: {error}"


def encode_map(known: dict[bytes, str], words: Sequence[int]) -> int:
    """Write a map where cuTensorMapEncodeTiled is told to, in the machine's form; return 0.

    One that the machine does not know has bytes of its own. `known` keeps by a map's bytes why it
    is not known, "" where it is.
    """
    made = machine_form(words)
    raw = made if isinstance(made, bytes) else len(known).to_bytes(_BYTES, "little")
    ctypes.memmove(words[0], raw, _BYTES)
    known[raw] = "" if isinstance(made, bytes) else made
    return 0


def map_arguments(
    known: dict[bytes, str], arguments: Sequence[bytes], alignments: Sequence[int]
) -> list[bytes]:
    """Return a launch's arguments with the maps that hardware's form tells in the machine's.

    Those in `known`, of `encode_map`, are in it. Raises MissingToolError for one that the machine
    does not know.
    """
    made = list(arguments)
    for index, (data, alignment) in enumerate(zip(arguments, alignments, strict=True)):
        if why := known.get(data):
            raise MissingToolError(why)
        is_other = alignment >= _ALIGNMENT and data not in known
        encoded = hardware_map(data) if is_other else None
        if encoded is not None:
            made[index] = machine_bytes(encoded)
    return made


def _numbers(address: int, count: int, size: int) -> tuple[int, ...]:
    raw = ctypes.string_at(address, count * size) if count else b""
    return tuple(int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size))
