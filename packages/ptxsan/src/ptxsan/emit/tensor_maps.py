"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a kernel makes itself.

PTX ISA 9.7.14 (tensormap.replace) and 9.7.13.16 (tensormap.cp_fenceproxy). The fields have the
machine's own places (runtime/tensor_maps.py). The template may be a map of all zeros, or the
first 64 bytes of a map that the launch was given: what lies behind them means nothing.
"""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.isa import space_of
from ptxsan.runtime import layout as L
from ptxsan.syntax import Immediate, Instruction

# field: (offset, bytes, whether it has an ordinal)
_FIELDS = {
    "global_address": (L.T_BASE, 8, False),
    "rank": (L.T_RANK, 1, False),
    "box_dim": (L.T_BOX, 1, True),
    "global_dim": (L.T_SIZES, 4, True),
    "global_stride": (L.T_STRIDES, 4, True),
    "element_stride": (L.T_STEPS, 1, True),
    "elemtype": (L.T_TYPE, 1, False),
    "interleave_layout": (L.T_INTERLEAVE, 1, False),
    "swizzle_mode": (L.T_SWIZZLE, 1, False),
    "fill_mode": (L.T_FILL, 1, False),
}
_LAST_SWIZZLE = 3  # 128 bytes; 4 is a mode of 96 bytes, which the machine does not have


@emits("tensormap", where=lambda ins: "replace" in ins.parts)
def emit_replace(cx: Emit, ins: Instruction) -> None:
    """Write one field of a tensor map."""
    name = next((part for part in ins.parts if part in _FIELDS), None)
    if name is None:
        cx.unsupported("names a field of tensor maps that is not modelled")
    offset, size, counted = _FIELDS[name]
    index, new = 0, ins.operands[-1]
    if counted:
        ordinal = ins.operands[1]
        if not isinstance(ordinal, Immediate) or ordinal.bits > 4:
            cx.unsupported("needs a constant of 0 to 4 for the dimension")
        index = ordinal.bits
    if name == "swizzle_mode" and isinstance(new, Immediate) and new.bits > _LAST_SWIZZLE:
        cx.unsupported("names a swizzle that is not modelled")
    text, poison = cells.address(cx, ins.operands[0], space_of(ins))
    if poison != "false":
        cells.report_if(cx, poison, L.K_POISON_ADDRESS, text)
    value = cx.read(new, "u64" if name in ("global_address", "global_stride") else "u32")
    if name == "global_stride":
        odd = cx.let(f"icmp ne i64 {cx.let(f'and i64 {value.bits}, 15')}, 0")
        cells.report_if(cx, odd, L.K_TENSOR_MAP, text)
        top = cx.let(f"lshr i64 {value.bits}, 36")
        _put(cx, ins, text, L.T_TOPS + index, 1, Value("u64", top, value.poison))
        value = Value("u64", cx.let(f"lshr i64 {value.bits}, 4"), value.poison)
    elif name == "box_dim":
        value = Value("u32", cx.let(f"sub i32 {value.bits}, 1"), value.poison)
    elif name == "rank":
        value = Value("u32", cx.let(f"or i32 {value.bits}, {L.T_OWN}"), value.poison)
    elif name == "element_stride" and index == 0:
        return  # the innermost dimension has none that counts
    _put(cx, ins, text, offset + size * index, size, value)


def _put(
    cx: Emit, ins: Instruction, text: str, offset: int, size: int, value: Value
) -> None:  # fmt: skip
    """Write the lowest bytes of a value into a map."""
    bits = value.bits
    if value.width > 8 * size:
        bits = cx.let(f"trunc i{value.width} {bits} to i{8 * size}")
    cell = cells.access_at(cx, cx.let(f"add i64 {text}, {offset}"), space_of(ins), size, "write")
    cells.store(cx, cell, 0, Value(f"b{8 * size}", bits, value.poison))


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
        old = cells.access_at(cx, cx.let(f"add i64 {source}, {start}"), "shared", 8, "read")
        parts = [cx.let(f"load i64, ptr {one}, align 1") for one in (old.data, old.init)]
        new = cells.access_at(cx, cx.let(f"add i64 {target}, {start}"), "global", 8, "write")
        # Bytes that nobody wrote stay so: whoever uses the map is told of those that count.
        for part, place in zip(parts, (new.data, new.init), strict=True):
            cx.line(f"store i64 {part}, ptr {place}, align 1")
    cx.label(done)
    cx.collective("warp_sync", [], [], mask=all_lanes.bits)
