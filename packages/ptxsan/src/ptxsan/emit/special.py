"""Special registers: where a thread is, clocks, lane masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxsan.emit.values import Value, width_of
from ptxsan.inline import KERNEL
from ptxsan.program import WORKSPACE
from ptxsan.runtime import layout

if TYPE_CHECKING:
    from ptxsan.emit.context import Emit

_AXES = {"x": 0, "y": 4, "z": 8}
_RECORDS = {
    "%tid": ("%thread", layout.TID_X),
    "%ntid": ("%launch", layout.BLOCK_DIM),
    "%ctaid": ("%block", layout.BLOCK_X),
    "%nctaid": ("%launch", layout.GRID_DIM),
    "%cluster_nctaid": ("%launch", layout.CLUSTER_DIM),
}
_PLAIN = {
    "%smid": "0", "%nsmid": "132", "%gridid": "0", "%laneid": "", "%warpid": "",
    "%nwarpid": "64", "%aggr_smem_size": "233472", "%total_smem_size": "233472",
    "%dynamic_smem_size": "", "%is_explicit_cluster": "true",
}  # fmt: skip
# The address that cooperative groups keep the barrier of the grid at, in two halves.
_WORKSPACE_BITS = {"%envreg1": 32, "%envreg2": 0}


def special_register(cx: Emit, name: str, type_: str) -> Value:
    """Return the value of a special register in a type of at least its width."""
    base, _, axis = name.rpartition(".")
    if base in _RECORDS and axis in _AXES:
        record, offset = _RECORDS[base]
        return _wide(cx, cx.load_field(record, offset + _AXES[axis]), type_)
    if base in ("%cluster_ctaid", "%clusterid", "%nclusterid") and axis in _AXES:
        return _wide(cx, _cluster(cx, base, _AXES[axis]), type_)
    if name == "%is_explicit_cluster":
        return Value("pred", "true")
    if name.startswith(("%clock", "%globaltimer")):
        # Deterministic: time is instructions executed, and what passes while all blocks wait.
        count = cx.let("load i64, ptr %count")
        count = cx.let(f"add i64 {count}, {cx.load_field('%launch', layout.CLOCK_AHEAD, 'i64')}")
        high = name.endswith("hi")
        bits = cx.let(f"lshr i64 {count}, 32") if high else count
        width = width_of(type_)
        return Value(type_, bits if width == 64 else cx.let(f"trunc i64 {bits} to i{width}"))
    if name == KERNEL:
        return _wide(cx, cx.load_field("%launch", layout.KERNEL), type_)
    if name in _WORKSPACE_BITS:
        return _wide(cx, str(cx.symbol(WORKSPACE) >> _WORKSPACE_BITS[name] & 0xFFFFFFFF), type_)
    text = _lane_register(cx, name)
    if text is None:
        cx.unsupported(f"reads the special register '{name}', which is not modelled")
    return _wide(cx, text, type_)


def _lane_register(cx: Emit, name: str) -> str | None:
    if name in ("%laneid", "%warpid") or name.startswith("%lanemask"):
        tid = cx.load_field("%thread", layout.TID)
        lane = cx.let(f"and i32 {tid}, 31")
        if name == "%laneid":
            return lane
        if name == "%warpid":
            return cx.let(f"lshr i32 {tid}, 5")
        which = name.removeprefix("%lanemask_")
        own = cx.let(f"shl i32 1, {lane}")
        below = cx.let(f"sub i32 {own}, 1")
        if which == "eq":
            return own
        if which == "lt":
            return below
        up_to = cx.let(f"or i32 {own}, {below}")
        inverse = {"le": up_to, "gt": f"xor i32 {up_to}, -1", "ge": f"xor i32 {below}, -1"}
        if which not in inverse:
            return None
        return up_to if which == "le" else cx.let(inverse[which])
    if name == "%cluster_ctarank":
        return cx.load_field("%block", layout.CLUSTER_RANK)
    if name == "%cluster_nctarank":
        x, y, z = (cx.load_field("%launch", layout.CLUSTER_DIM + 4 * i) for i in range(3))
        return cx.let(f"mul i32 {cx.let(f'mul i32 {x}, {y}')}, {z}")
    if name == "%dynamic_smem_size":
        return cx.load_field("%launch", layout.DYNAMIC_BYTES)
    found = _PLAIN.get(name)
    return found or None


def _cluster(cx: Emit, base: str, axis: int) -> str:
    size = cx.load_field("%launch", layout.CLUSTER_DIM + axis)
    if base == "%nclusterid":
        return cx.let(f"udiv i32 {cx.load_field('%launch', layout.GRID_DIM + axis)}, {size}")
    block = cx.load_field("%block", layout.BLOCK_X + axis)
    return cx.let(f"{'urem' if base == '%cluster_ctaid' else 'udiv'} i32 {block}, {size}")


def _wide(cx: Emit, text: str, type_: str) -> Value:
    width = width_of(type_)
    if width == 32:
        return Value(type_, text)
    return Value(type_, cx.let(f"{'zext' if width > 32 else 'trunc'} i32 {text} to i{width}"))
