"""cp.async.bulk, cp.reduce.async.bulk, tensor copies, their groups, and prefetches of either.

PTX ISA 9.7.9.25.5 (bulk) and 9.7.9.27 (tensor). What is given behind the barrier (cache policies)
changes nothing here.
"""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.mbarriers import object_address, site_of, wide
from ptxsan.emit.registry import emits
from ptxsan.runtime import layout
from ptxsan.runtime.reductions import OPERATIONS, TYPES
from ptxsan.runtime.tile_issue import PAIR
from ptxsan.syntax import Address, Instruction, Operand, Vector

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))
_LOGIC = ("and", "or", "xor", "inc", "dec")


@emits("cp", where=lambda ins: "bulk" in ins.parts)
def emit_bulk(cx: Emit, ins: Instruction) -> None:
    """Start a bulk copy, close a group, or wait for groups."""
    parts = ins.parts
    if "prefetch" in parts:
        return
    if "commit_group" in parts:
        cx.call("void", "rt_bulk_commit", ("i64", "%thread.i"))
    elif "wait_group" in parts:
        # A store of a tile by all lanes is one store: they ask for it before one of them has it.
        cx.store_field("%thread", layout.WAIT_SITE, str(cx.site))
        cx.suspend_here(layout.REASON_YIELD)
        pending = cx.read(ins.operands[0], "s64")
        read = ("i64", str(int("read" in parts)))
        cx.call("void", "rt_bulk_wait", *_HERE, ("i64", pending.bits), read)
    elif "tensor" in parts:
        _tensor(cx, ins)
    else:
        target, source = _spaces(ins)
        if "cp_mask" in ins.parts or "ignore_oob" in ins.parts:
            cx.unsupported("with a byte mask is not modelled")
        _demand_moves(cx, ins)
        where = [_place(cx, ins.operands[0], target), _place(cx, ins.operands[1], source)]
        size = wide(cx, ins.operands[2])
        how = _reduction(cx, ins, ins.parts[-1]) if "reduce" in ins.parts else 0
        arguments = [*_HERE, *(("i64", one) for one in (*where, size))]
        if target == "global":
            cx.call("void", "rt_bulk_out", *arguments, ("i64", str(how)), site_of(cx))
        else:
            how |= int(source != "global")
            barrier = object_address(cx, ins.operands[3])
            text = str(how)
            if "multicast::cluster" in ins.parts:
                text = cx.let(f"or i64 {blocks_of(cx, ins.operands[4], 24)}, {how | 2}")
            cx.call("void", "rt_bulk_in", *arguments, ("i64", barrier), ("i64", text), site_of(cx))


def _spaces(ins: Instruction) -> list[str]:
    """Return the spaces of target and source."""
    return [one for one in ins.parts if one.partition("::")[0] in ("global", "shared")]


def _demand_moves(cx: Emit, ins: Instruction) -> None:
    """Refuse float reductions where shadows are residues: what a copy reduces has none."""
    if cx.algebra and "reduce" in ins.parts:
        cx.unsupported("is a reduction by a copy, which has no meaning in the algebra")


def blocks_of(cx: Emit, operand: Operand, shift: int) -> str:
    """Return the mask of the blocks that a copy serves, shifted."""
    mask = cx.read(operand, "u16")
    if mask.poison != "false":
        cells.report_if(cx, mask.poison, layout.K_POISON_ADDRESS)
    return cx.let(f"shl i64 {cx.let(f'zext i16 {mask.bits} to i64')}, {shift}")


def _place(cx: Emit, operand: Operand, space: str) -> str:
    """Return a global address, or a shared one within its window."""
    name = space.partition("::")[0]
    text, poison = cells.address(cx, operand, name)
    if poison != "false":
        cells.report_if(cx, poison, layout.K_POISON_ADDRESS, text)
    return text


def _reduction(cx: Emit, ins: Instruction, type_: str) -> int:
    """Return the bits of `how` for a reduction over elements of a type."""
    operation = next((one for one in ins.parts if one in OPERATIONS and one), None)
    if operation is None or (type_ and type_ not in TYPES):
        cx.unsupported("is a reduction that is not modelled")
    if type_ in ("f16", "bf16", "f32", "f64") and operation in _LOGIC:
        cx.unsupported("combines floating-point numbers as if they were integers")
    kind = TYPES.index(type_) if type_ else 0
    return OPERATIONS.index(operation) << 8 | kind << 16


def _tensor(cx: Emit, ins: Instruction) -> None:
    if any(one.startswith(("im2col::", "tile::")) for one in ins.parts):
        cx.unsupported("is in a mode of a later architecture")
    inward = _spaces(ins)[0].startswith("shared")
    tensor, inner = (ins.operands[1], ins.operands[0]) if inward else ins.operands[:2]
    assert isinstance(tensor, Address)
    # Leave the coordinates of a tile in the thread's record and return them.
    coordinates = tensor.coordinates
    if len(coordinates) == 1 and isinstance(coordinates[0], Vector):
        coordinates = coordinates[0].items
    if not 1 <= len(coordinates) <= 5:
        cx.unsupported("has no coordinates of 1 to 5 dimensions")
    for axis, item in enumerate(coordinates):
        value = cx.read(item, "s32")
        if value.poison != "false":
            cells.report_if(cx, value.poison, layout.K_POISON_ADDRESS)
        cx.store_field("%thread", layout.TILE_AT + 4 * axis, value.bits)
    base = Address(tensor.base, tensor.offset)
    where = object_address(cx, base, "generic")
    columns = "im2col" in ins.parts
    mode = len(coordinates) | 8 * (columns or "im2col_no_offs" in ins.parts)
    if columns and len(ins.operands) < 4:
        cx.unsupported("has no im2col offsets")
    _offsets(cx, ins.operands[3] if columns else None, len(coordinates) - 2)
    shared = _place(cx, inner, "shared")
    if not inward:
        _demand_moves(cx, ins)
        how = mode | (_reduction(cx, ins, "") if "reduce" in ins.parts else 0)
        outward = (("i64", where), ("i64", shared), ("i64", str(how)))
        cx.call("void", "rt_tile_out", *_HERE, *outward, site_of(cx))
        return
    barrier = object_address(cx, ins.operands[2])
    mode |= PAIR if "cta_group::2" in ins.parts else 0
    how_text = str(mode)
    if "multicast::cluster" in ins.parts:
        how_text = cx.let(f"or i64 {blocks_of(cx, ins.operands[3 + columns], 8)}, {mode}")
    arguments = (("i64", shared), ("i64", where), ("i64", barrier), ("i64", how_text))
    cx.call("void", "rt_tile_in", *_HERE, *arguments, site_of(cx))


def _offsets(cx: Emit, operand: Operand | None, count: int) -> None:
    """Leave the im2col offsets of a copy, W first, in the thread's record: 0 where it has none."""
    items: tuple[Operand, ...] = ()
    if operand is not None:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != count:
            cx.unsupported(f"has {len(items)} im2col offsets, not {count}")
    for axis in range(3):
        text = "0"
        if axis < len(items):
            value = cx.read(items[axis], "u16")
            if value.poison != "false":
                cells.report_if(cx, value.poison, layout.K_POISON_ADDRESS)
            text = cx.let(f"zext i16 {value.bits} to i32")
        cx.store_field("%thread", layout.TILE_OFFSETS + 4 * axis, text)


@emits("cp", where=lambda ins: "mbarrier" in ins.parts and "async" in ins.parts)
def emit_copy_arrive(cx: Emit, ins: Instruction) -> None:
    """Arrive at an mbarrier when this thread's cp.async so far have arrived."""
    cx.parts.uses_copies = True
    place = object_address(cx, ins.operands[0], "shared" if _spaces(ins) else "generic")
    noinc = ("i64", str(int("noinc" in ins.parts)))
    cx.call("void", "rt_copy_arrive", *_HERE, ("i64", place), noinc, site_of(cx))
