"""A launch of the corpus as SentryWard takes it: `input.json`, schema `spverify.kernel-input/v1`.

Written from the tool's own docs/input-json.md (release 0.1.1). It takes PTX, one launch, values
of scalars and the identity of memory; contents of tensors are symbolic, so none are given, and
sizes of buffers cannot be said.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, assert_never

from cuassay.errors import CuassayError
from ptxsan.launch import ELEMENTS, SWIZZLES, Launch, Pointer, TensorMap, element_bytes
from ptxsan.runtime import layout as L
from ptxsan.syntax import Declaration, Module

SCHEMA = "spverify.kernel-input/v1"
_POINTER = {"type": "pointer", "space": "global"}
_WIDTHS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_FLOATS = {"f32": "<f", "f64": "<d"}


class NotExpressible(CuassayError):
    """A launch that `input.json` has no words for."""


def kernel_input(module: Module, launch: Launch, assumptions: Mapping[str, bool]) -> dict[str, Any]:
    """Return the document of one launch. Raises NotExpressible."""
    shape: dict[str, Any] = {"grid_dim": list(launch.grid), "block_dim": list(launch.block)}
    directives = module.functions[launch.kernel].directives
    cluster = launch.cluster
    if cluster == (1, 1, 1) and "reqnctapercluster" in directives:
        wanted = (*directives["reqnctapercluster"], 1, 1, 1)
        cluster = (wanted[0], wanted[1], wanted[2])
    if cluster != (1, 1, 1):
        shape["cluster_dim"] = list(cluster)
    if launch.dynamic_shared_bytes:
        shape["dynamic_shared_bytes"] = launch.dynamic_shared_bytes
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "entry": launch.kernel,
        "launch": shape,
        "declarations": [],
        "arguments": [],
        "tma_descriptors": [],
    }
    if assumptions:
        document["assumptions"] = dict(assumptions)
    inside = {(index, offset): pointer for index, offset, pointer in launch.pointers_inside}
    params = module.functions[launch.kernel].params
    for index, (param, argument) in enumerate(zip(params, launch.arguments, strict=True)):
        match argument:
            case Pointer():
                document["declarations"].append(_pointer(index, argument))
            case TensorMap():
                _tile(document, index, argument)
            case bytes():
                base = inside.get((index, L.T_BASE))
                if base is not None and len(argument) == L.T_BYTES:
                    _tile(document, index, _unpacked(argument, base))
                elif not any(argument) and _declared_pointer(module, param.name):
                    document["declarations"].append({"parameter": index, **_POINTER})
                    document["arguments"].append(
                        {"parameter": index, "type": "pointer", "value": None}
                    )
                else:
                    document["arguments"].append(_scalar(index, param, argument))
            case _:
                assert_never(argument)
    return document


def _pointer(index: int, argument: Pointer) -> dict[str, Any]:
    if argument.offset:
        raise NotExpressible(f"parameter {index} points {argument.offset} bytes into a buffer")
    name = argument.buffer.name.replace(" ", "_")
    return {"parameter": index, **_POINTER, "object": name}


def _declared_pointer(module: Module, name: str) -> bool:
    """Whether PTX declares a parameter as a pointer: Triton's scratch, null where it has none."""
    return (
        re.search(rf"\.param\s+\.[ub]64\s+\.ptr[^,)]*\b{re.escape(name)}\b", module.text)
        is not None
    )


def _scalar(index: int, param: Declaration, raw: bytes) -> dict[str, Any]:
    value: int | float
    if param.type in _FLOATS:
        kind, value = param.type, struct.unpack(_FLOATS[param.type], raw)[0]
    elif len(raw) in _WIDTHS and param.count == 1:
        kind, value = _WIDTHS[len(raw)], int.from_bytes(raw, "little")
    else:
        raise NotExpressible(f"parameter {index} is a structure of {len(raw)} bytes")
    return {"parameter": index, "type": kind, "value": value}


def _tile(document: dict[str, Any], index: int, one: TensorMap) -> None:
    """Add a tensor map: its identity, and its metadata with the innermost dimension first."""
    if one.columns is not None:
        raise NotExpressible(f"parameter {index} is a tensor map for columns (im2col)")
    name = one.pointer.buffer.name.replace(" ", "_")
    document["declarations"].append({"parameter": index, "type": "tensor_map", "object": name})
    document["tma_descriptors"].append(
        {
            "parameter": index,
            "object": name,
            "element_type": one.element,
            "rank": len(one.sizes),
            "base_byte_offset": one.pointer.offset,
            "global_shape": list(one.sizes),
            "box_shape": list(one.box),
            "coordinate_strides_bytes": [element_bytes(one.element), *one.strides],
            "element_strides": list(one.steps or (1,) * len(one.sizes)),
            "swizzle": f"{one.swizzle}B" if one.swizzle else "none",
            "interleave": "none",
            "oob_fill": "nan" if one.nan_fill else "zero",
        }
    )


def _unpacked(raw: bytes, pointer: Pointer) -> TensorMap:
    """Return a tensor map from the machine's own 128 bytes."""
    rank = struct.unpack_from("<I", raw, L.T_RANK)[0] + 1
    code = struct.unpack_from("<I", raw, L.T_TYPE)[0]
    return TensorMap(
        pointer=pointer,
        element=next(name for name, number in ELEMENTS.items() if number == code),
        sizes=struct.unpack_from(f"<{rank}I", raw, L.T_SIZES),
        strides=struct.unpack_from(f"<{rank - 1}Q", raw, L.T_STRIDES),
        box=struct.unpack_from(f"<{rank}H", raw, L.T_BOX),
        steps=tuple(raw[L.T_STEPS : L.T_STEPS + rank]),
        swizzle=SWIZZLES[raw[L.T_SWIZZLE]],
        nan_fill=bool(raw[L.T_FILL]),
    )
