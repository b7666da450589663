"""wgmma: the warpgroup's product, warp by warp, with B (and A) read from shared memory.

A warp makes sixteen of the group's 64 rows. Its lanes read the operands in chunks of 16 bytes at
the addresses that the matrix descriptors mean (PTX ISA 9.7.15.5.1: strides, swizzles), each read
checked like any other, and `runtime.matrix` multiplies. The product is done where it is issued:
that a program overwrites an operand before wgmma.wait_group is not seen (docs/machine-numerics.md).
"""

from __future__ import annotations

from ptxsan.emit import algebra, cells
from ptxsan.emit.context import Emit
from ptxsan.emit.matrix import items_of, lane_of, shape_of, write_result
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.numerics.dot import SumRule, group_rule
from ptxsan.numerics.formats import BY_NAME
from ptxsan.runtime.packing import (
    CHUNKS_A,
    CHUNKS_B,
    INTEGERS,
    SATFINITE,
    SHADOW,
    TRANSPOSE_A,
    TRANSPOSE_B,
    pack,
)
from ptxsan.syntax import Immediate, Instruction, Operand, Vector

_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8", "f32", "s32")
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "u8": 1, "s8": 1}
_FLIP = {"f16": 0x80008000, "bf16": 0x80008000, "tf32": 0x80000000}
_ROW_BYTES = 32  # of K that one instruction takes


@emits("wgmma", where=lambda ins: ins.parts[1] in ("fence", "commit_group", "wait_group"))
def emit_group_order(cx: Emit, ins: Instruction) -> None:
    """Order of wgmma operations: they are done where they are issued."""


@emits("wgmma", where=lambda ins: ins.parts[1] == "mma_async")
def emit_group_multiply(cx: Emit, ins: Instruction) -> None:
    """D = A B + D, or A B where scale-d is false, over the sixteen rows of this warp."""
    if any(part.startswith("sp") for part in ins.parts):
        cx.unsupported("is sparse, which is not modelled")
    _, n, k = shape_of(cx, ins)
    d, a, b = [part for part in ins.parts if part in _TYPES]
    registers = items_of(ins.operands[0])
    scale = cx.read(ins.operands[3], "pred")
    rest = []
    for one in ins.operands[4:]:
        if not isinstance(one, Immediate):
            cx.unsupported("needs constants for its scales and transposes")
        bits = one.bits & 0xFFFFFFFF
        rest.append(bits - (1 << 32) if bits >> 31 else bits)
    signs = (rest[0], rest[1]) if len(rest) >= 2 else (1, 1)
    turns = [bool(one) for one in rest[2:]]
    if isinstance(ins.operands[1], Vector):
        turns = [False, *turns]
    turns += [False, False]
    transposes = (turns[0], turns[1])
    words_a, flags = _first(cx, ins.operands[1], a, transposes[0])
    words_b = _chunks(cx, ins.operands[2], n * _ROW_BYTES // 16, transposes[1], _BYTES[b], first=0)
    if signs[0] * signs[1] < 0:
        words_a = [_flipped(cx, one, a) for one in words_a]
    flags |= (
        CHUNKS_B
        | (TRANSPOSE_B if transposes[1] else 0)
        | (SHADOW if cx.shadow_on and not cx.algebra else 0)
    )
    flags |= SATFINITE if "satfinite" in ins.parts else 0
    words_c = [_scaled(cx, cx.read(one, "b32"), scale) for one in registers]
    rule: SumRule | None = None
    if a in INTEGERS:
        name, kinds = "mma_integer", (INTEGERS[a], INTEGERS[b], 0)
    else:
        name = "mma_float"
        kinds = BY_NAME[a].index, BY_NAME[b].index, BY_NAME[d].index
        rule = group_rule(cx.options.arch, _BYTES[a])
    counts = len(words_a), len(words_b), len(registers)
    immediate = pack((16, n, k), counts, kinds, rule, flags)
    inputs = [*words_a, *words_b, *words_c]
    if cx.algebra and a not in INTEGERS:
        results = algebra.products(cx, inputs, (a, b, d), counts, immediate)
    else:
        results = cx.collective(name, inputs, ["b32"] * len(registers), immediate=immediate)
    for to, result in zip(registers, results, strict=True):
        write_result(cx, to, result, d)


def _first(cx: Emit, operand: Operand, type_: str, transposed: bool) -> tuple[list[Value], int]:
    """Return the words of A that this lane holds, and their flags."""
    if isinstance(operand, Vector):
        return [cx.read(one, "b32") for one in operand.items], 0
    flags = CHUNKS_A | (TRANSPOSE_A if transposed else 0)
    from ptxsan.runtime import layout

    thread = cx.load_field("%thread", layout.TID)
    warp = cx.let(f"and i32 {cx.let(f'lshr i32 {thread}, 5')}, 3")
    first = cx.let(f"zext i32 {cx.let(f'shl i32 {warp}, 4')} to i64")
    return _chunks(cx, operand, 32, transposed, _BYTES[type_], first=first), flags


def _chunks(
    cx: Emit, operand: Operand, total: int, transposed: bool, size: int, *, first: str | int
) -> list[Value]:
    """Return the words of the chunks lane, lane + 32... of a matrix with rows from `first` on."""
    descriptor = cx.read(operand, "b64").bits
    lane = cx.let(f"zext i32 {lane_of(cx)} to i64")
    words: list[Value] = []
    rows = total * 16 // _ROW_BYTES
    for turn in range(-(-total // 32)):
        chunk = cx.let(f"add i64 {lane}, {32 * turn}")
        if total % 32:  # fewer chunks than lanes: the others read the last one again
            chunk = cx.call("i64", "llvm.umin.i64", ("i64", chunk), ("i64", str(total - 1)))
        if transposed:
            blocks = rows * size // 16
            inner = cx.let(f"udiv i64 {chunk}, {blocks}")
            outer = cx.let(f"mul i64 {cx.let(f'urem i64 {chunk}, {blocks}')}, {16 // size}")
        else:
            outer = cx.let(f"lshr i64 {chunk}, 1")
            inner = cx.let(f"shl i64 {cx.let(f'and i64 {chunk}, 1')}, 4")
        outer = cx.let(f"add i64 {outer}, {first}")
        turned = ("i64", str(int(transposed) | size << 1))
        address = cx.call(
            "i64", "group_address", ("i64", descriptor), ("i64", outer), ("i64", inner), turned
        )
        cell = cells.access_at(cx, address, "shared", 16, "read")
        words += [cells.load(cx, cell, 4 * index, "b32") for index in range(4)]
    return words


def _flipped(cx: Emit, value: Value, type_: str) -> Value:
    if cx.algebra:
        cx.unsupported("with a negative scale has no meaning in the algebra")
    if type_ not in _FLIP:
        cx.unsupported("takes no negative scale for this type")
    shadow = tuple(cx.let(f"fneg double {one}") for one in value.shadow)
    return Value("b32", cx.let(f"xor i32 {value.bits}, {_FLIP[type_]}"), value.poison, shadow)


def _scaled(cx: Emit, value: Value, scale: Value) -> Value:
    """Return an accumulator word, or an exact zero where scale-d is false."""
    bits = cx.let(f"select i1 {scale.bits}, i32 {value.bits}, i32 0")
    poison = cx.let(f"select i1 {scale.bits}, i1 {value.poison}, i1 false")
    shadow = tuple(
        cx.let(f"select i1 {scale.bits}, double {one}, double 0.0") for one in value.shadow
    )
    return Value("b32", bits, poison, shadow)
