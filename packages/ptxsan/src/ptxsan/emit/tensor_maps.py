"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a kernel makes itself.

PTX ISA 9.7.14 (tensormap.replace) and 9.7.13.16 (tensormap.cp_fenceproxy). The fields have the
machine's own places (runtime/tensor_maps.py); a map of all zeros is the template for both.
"""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.isa import space_of
from ptxsan.runtime import layout as L
from ptxsan.syntax import Immediate, Instruction

# field: (offset, bytes, distance between ordinals)
_FIELDS = {
    "global_address": (L.T_BASE, 8, 0),
    "rank": (L.T_RANK, 4, 0),
    "box_dim": (L.T_BOX, 2, 2),
    "global_dim": (L.T_SIZES, 4, 4),
    "global_stride": (L.T_STRIDES, 8, 8),
    "element_stride": (L.T_STEPS, 1, 1),
    "elemtype": (L.T_TYPE, 4, 0),
    "interleave_layout": (L.T_INTERLEAVE, 1, 0),
    "swizzle_mode": (L.T_SWIZZLE, 1, 0),
    "fill_mode": (L.T_FILL, 1, 0),
}


@emits("tensormap", where=lambda ins: "replace" in ins.parts)
def emit_replace(cx: Emit, ins: Instruction) -> None:
    """Write one field of a tensor map."""
    name = next((part for part in ins.parts if part in _FIELDS), None)
    if name is None:
        cx.unsupported("names a field of tensor maps that is not modelled")
    offset, size, step = _FIELDS[name]
    if step:
        ordinal = ins.operands[1]
        if not isinstance(ordinal, Immediate) or ordinal.bits > 4:
            cx.unsupported("needs a constant of 0 to 4 for the dimension")
        offset += step * ordinal.bits
    text, poison = cells.address(cx, ins.operands[0], space_of(ins))
    if poison != "false":
        cells.report_if(cx, poison, L.K_POISON_ADDRESS, text)
    value = cx.read(ins.operands[-1], f"u{8 * size}")
    cell = cells.access_at(cx, cx.let(f"add i64 {text}, {offset}"), space_of(ins), size, "write")
    cells.store(cx, cell, 0, value)


@emits("tensormap", where=lambda ins: "cp_fenceproxy" in ins.parts)
def emit_copy(cx: Emit, ins: Instruction) -> None:
    """Copy a tensor map from shared to global memory: once for the warp, which meets around it."""
    size = ins.operands[2]
    if not isinstance(size, Immediate) or size.bits != L.T_BYTES:
        cx.unsupported("copies something else than 128 bytes")
    all_lanes = Value("b32", "-1")
    cx.collective("warp_sync", [], [], mask=all_lanes.bits, keep=ins.operands[:2])
    tid = cx.load_field("%thread", L.TID)
    copy, done = cx.fresh("copy"), cx.fresh("copied")
    cx.branch(cx.let(f"icmp eq i32 {cx.let(f'and i32 {tid}, 31')}, 0"), copy, done)
    cx.lines.append(f"{copy}:")
    target, _ = cells.address(cx, ins.operands[0], "global")
    source, _ = cells.address(cx, ins.operands[1], "shared")
    for start in range(0, L.T_BYTES, 8):
        cell = cells.access_at(cx, cx.let(f"add i64 {source}, {start}"), "shared", 8, "read")
        word = cells.load(cx, cell, 0, "b64")
        cell = cells.access_at(cx, cx.let(f"add i64 {target}, {start}"), "global", 8, "write")
        cells.store(cx, cell, 0, word)
    cx.label(done)
    cx.collective("warp_sync", [], [], mask=all_lanes.bits)
