"""Bytes and halves of 32 bits in parallel: vadd4, vsub4, vavrg4, vabsdiff4, vmin4, vmax4, vset4.

PTX ISA, "SIMD Video Instructions": lane by lane, packed again or (`.add`) summed into an
accumulator. Selectors and masks of lanes are refused where they are spelt.
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.syntax import Instruction

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


@emits(
    "vadd2", "vadd4", "vsub2", "vsub4", "vavrg2", "vavrg4", "vabsdiff2", "vabsdiff4",
    "vmin2", "vmin4", "vmax2", "vmax4", "vset2", "vset4",
)  # fmt: skip
def emit_lanes(cx: Emit, ins: Instruction) -> None:
    """Compute two halves or four bytes; c is added to their sum, or (no mask) not looked at."""
    name, lanes = ins.base[:-1], int(ins.base[-1])
    types = [one for one in ins.parts if one in ("u32", "s32")]
    result, a_type, b_type = types if name != "vset" else ("u32", *types)
    a, b, c = (cx.read(one, "b32") for one in ins.operands[1:4])
    width, sums = 32 // lanes, "add" in ins.parts
    total = c.bits if sums else "0"
    for index in range(lanes):
        x = _lane(cx, a, index, width, signed=a_type == "s32")
        y = _lane(cx, b, index, width, signed=b_type == "s32")
        found = _operation(cx, ins, name, x, y)
        if "sat" in ins.parts:
            low = -(1 << width - 1) if result == "s32" else 0
            high = (1 << width - 1) - 1 if result == "s32" else (1 << width) - 1
            found = _chosen(cx, "sgt", found, str(low), found, str(low))
            found = _chosen(cx, "slt", found, str(high), found, str(high))
        if sums:
            total = cx.let(f"add i32 {total}, {found}")
            continue
        part = cx.let(f"and i32 {found}, {(1 << width) - 1}")
        total = cx.let(f"or i32 {total}, {cx.let(f'shl i32 {part}, {width * index}')}")
    cx.write(ins.operands[0], "b32", total, sources=(a, b, c) if sums else (a, b))


def _operation(cx: Emit, ins: Instruction, name: str, x: str, y: str) -> str:
    match name:
        case "vadd":
            return cx.let(f"add i32 {x}, {y}")
        case "vsub":
            return cx.let(f"sub i32 {x}, {y}")
        case "vavrg":  # rounded away from zero
            both = cx.let(f"add i32 {x}, {y}")
            up = cx.let(f"xor i32 {cx.let(f'lshr i32 {both}, 31')}, 1")
            return cx.let(f"ashr i32 {cx.let(f'add i32 {both}, {up}')}, 1")
        case "vabsdiff":
            return _chosen(
                cx, "sgt", x, y, cx.let(f"sub i32 {x}, {y}"), cx.let(f"sub i32 {y}, {x}")
            )
        case "vmin":
            return _chosen(cx, "slt", x, y, x, y)
        case "vmax":
            return _chosen(cx, "sgt", x, y, x, y)
        case _:
            how = next(one for one in ins.parts if one in _COMPARE)
            word = how if how in ("eq", "ne") else f"s{how}"
            return cx.let(f"zext i1 {cx.let(f'icmp {word} i32 {x}, {y}')} to i32")


def _chosen(cx: Emit, how: str, x: str, y: str, yes: str, no: str) -> str:
    return cx.let(f"select i1 {cx.let(f'icmp {how} i32 {x}, {y}')}, i32 {yes}, i32 {no}")


def _lane(cx: Emit, value: Value, index: int, bits: int, *, signed: bool) -> str:
    moved = cx.let(f"shl i32 {value.bits}, {32 - bits * (index + 1)}")
    return cx.let(f"{'ashr' if signed else 'lshr'} i32 {moved}, {32 - bits}")
