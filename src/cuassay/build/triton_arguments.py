"""Arguments of Triton kernels as the bytes that a launch passes: scalars, pointers, descriptors.

What is packed follows Triton's own C launcher: constants are left out, a descriptor becomes a
tensor map with its shape and strides (or a base pointer with both, twice), two scratch pointers
come last. Interface: triton/backends/nvidia/driver.py.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuassay.build.cuda.driver import ELEMENT_NUMBERS
from cuassay.build.cuda.tile_maps import Encoded, element_bytes, machine_bytes
from cuassay.errors import MissingToolError

_CODES = {
    "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "?", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d",
}  # fmt: skip
_TILE_MAP = "nvTmaDesc"
# What launchers get before a kernel's arguments: grid, stream, function, metadata twice, two hooks.
LEADING = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedLaunch:
    """A launch as hardware takes it, and the tensors that its parameters point into."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    arguments: list[bytes]
    tensors: list[Any]
    scratch: list[Any]


def packed(
    metadata: Any, signature: Mapping[Any, Any], grid: Sequence[Any], values: Sequence[Any]
) -> PackedLaunch:
    """Return a launch of a compiled kernel; descriptors among `values` are in parts.

    `grid` are Triton's programs, of one block or, with `num_ctas`, one cluster each. Raises
    MissingToolError for parameters that the machine has no form for.
    """
    x, y, z = (int(extent) for extent in grid)
    tiles = getattr(metadata, "tensordesc_meta", None) or ()
    kinds = list(expanded(signature, tiles))
    types = [str(kind) for kind in flat(kinds)]
    arguments, tensors = parameters(types, list(flat([*_whole(kinds, values)])))
    buffers = scratch(metadata, x * y * z)
    ctas = int(getattr(metadata, "num_ctas", 1))
    return PackedLaunch(
        grid=(x * ctas, y, z),
        block=(32 * int(metadata.num_warps), 1, 1),
        cluster=(ctas, 1, 1),
        shared_bytes=int(metadata.shared),
        arguments=[*arguments, *(struct.pack("<Q", address_of(one)) for one in buffers)],
        tensors=tensors,
        scratch=[one for one in buffers if one is not None],
    )


def descriptor(
    address: int, swizzle: int, _size: int, element: int, block: Sequence[int],
    shape: Sequence[int], strides: Sequence[int], padding: int = 0,
) -> bytes:  # fmt: skip
    """Return the machine's bytes of a descriptor that Triton makes on the host.

    `element` is numbered like the driver's CUtensorMapDataType; sizes are outermost first.
    """
    names = {number: name for name, number in ELEMENT_NUMBERS.items()}
    if element not in names:
        raise MissingToolError(f"the PTX machine knows no tensor map of element type {element}")
    name = names[element]
    size = element_bytes(name)
    return machine_bytes(
        Encoded(
            address=int(address), element=name, sizes=tuple(int(one) for one in reversed(shape)),
            strides=tuple(int(one) * size for one in reversed(strides[:-1])),
            box=tuple(int(one) for one in reversed(block)), swizzle=(0, 32, 64, 128)[swizzle],
            nan_fill=bool(padding),
        )
    )  # fmt: skip


def expanded(signature: Mapping[Any, Any], meta: Sequence[Any]) -> Iterator[Any]:
    """Yield parameter types; a descriptor is its base, shape, strides, padding, both again.

    Where the kernel copies tiles by TMA (`meta` says how), it is a tensor map, shape and strides.
    """
    known = iter(meta)
    for kind in signature.values():
        if not str(kind).startswith("tensordesc"):
            yield kind
            continue
        body = str(kind)[len("tensordesc<") :]
        dims = body[body.index("[") + 1 : body.index("]")].count(",") + 1
        if next(known, None) is None:
            # How many flags a descriptor has: its padding, from Triton 3.8 on its rounding
            # too
            descriptors = importlib.import_module("triton.tools.tensor_descriptor")
            flags = 1 + ("round_f32_to_tf32" in descriptors.TensorDescriptor.__dataclass_fields__)
            yield from ("*i8", *["i64"] * (2 * dims), *["i1"] * flags)
        else:
            yield _TILE_MAP
        yield from (*["i32"] * dims, *["i64"] * dims)


def flat(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the values of nested tuples and lists one after another."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from flat(value)
        else:
            yield value


def _whole(kinds: Sequence[Any], values: Sequence[Any]) -> Iterator[Any]:
    """Yield values, those of constants that are tuples as one: the signature has one name there."""
    if len(kinds) != len(values):
        yield from values
        return
    for kind, value in zip(kinds, values, strict=True):
        yield None if isinstance(kind, str) and kind == "constexpr" else value


def parameters(types: Sequence[str], values: Sequence[Any]) -> tuple[list[bytes], list[Any]]:
    """Return the parameters as bytes, constants left out, and the tensors among them."""
    packed: list[bytes] = []
    held: list[Any] = []
    for kind, value in zip(types, values, strict=True):
        if kind == "constexpr":
            continue
        if kind == _TILE_MAP:
            packed.append(bytes(value))
        elif kind.startswith("*"):
            packed.append(struct.pack("<Q", address_of(value)))
            held += [value] if hasattr(value, "untyped_storage") else []
        elif kind in _CODES:
            code = _CODES[kind]
            if code in "?":
                packed.append(struct.pack("<B", int(bool(value))))
            else:
                packed.append(struct.pack(f"<{code}", float(value) if code in "fd" else int(value)))
        else:
            raise MissingToolError(f"the PTX machine knows no Triton parameter of type '{kind}'")
    return packed, held


def address_of(value: Any) -> int:
    """Return the address that a pointer argument (tensor, number or None) passes."""
    if value is None:
        return 0
    return int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value)


def scratch(metadata: Any, blocks: int) -> tuple[Any, Any]:
    """Return the two scratch buffers that Triton passes last; None where a kernel needs none."""
    import torch

    found = []
    for kind in ("global", "profile"):
        size = int(getattr(metadata, f"{kind}_scratch_size", 0) or 0)
        size *= blocks * int(getattr(metadata, "num_ctas", 1))
        found.append(torch.zeros(size, dtype=torch.uint8) if size else None)
    return found[0], found[1]
