"""Warp matrix instructions: mma, wmma, ldmatrix, stmatrix, movmatrix.

Lanes bring their fragments into a collective (`runtime.matrix`, `runtime.exchange`); loads and
stores are done by each lane on its own, so that bounds, initialisation and races are seen by lane.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptxsan.emit import algebra, cells
from ptxsan.emit.context import Emit
from ptxsan.emit.floating import as_double, delta, exactly
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.isa import space_of
from ptxsan.numerics.dot import SumRule, instruction_rule
from ptxsan.numerics.formats import BY_NAME
from ptxsan.runtime.packing import DEALT, FRACTIONS, INTEGERS, SATFINITE, SHADOW, pack
from ptxsan.runtime.sparse import ORDERED, SCALED, WHOLE
from ptxsan.syntax import Immediate, Instruction, Operand, Register, Vector

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "e4m3": 8, "e5m2": 8, "f64": 64, "s32": 32}
_BITS |= {"u8": 8, "s8": 8, "u4": 4, "s4": 4}
_BITS |= {"e2m1": 8, "e2m3": 8, "e3m2": 8}  # in bytes of their own
# Of a kind with scales: depth, how many scales a row may have, their types.
_SCALED = {
    "kind::mxf8f6f4": (32, (1,), ("ue8m0",)), "kind::mxf4": (64, (2,), ("ue8m0",)),
    "kind::mxf4nvf4": (64, (2, 4), ("ue8m0", "ue4m3")),
}  # fmt: skip


def shape_of(cx: Emit, ins: Instruction) -> tuple[int, int, int]:
    """Return (m, n, k) of a matrix instruction."""
    found = [match for part in ins.parts if (match := _SHAPE.fullmatch(part))]
    if not found:
        cx.unsupported("names no shape")
    return int(found[0].group(1)), int(found[0].group(2)), int(found[0].group(3))


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the registers of a vector, or a single one."""
    return operand.items if isinstance(operand, Vector) else (operand,)


@emits("mma")
def emit_mma(cx: Emit, ins: Instruction) -> None:
    """D = A B + C over a warp."""
    if "sp" in ins.parts or "sp::ordered_metadata" in ins.parts:
        _sparse(cx, ins)
        return
    m, n, k = shape_of(cx, ins)
    if (m, n, k) == (8, 8, 4) and "f16" in ins.parts:
        cx.unsupported("is the Volta shape, which is not modelled")
    if "row" not in ins.parts or "col" not in ins.parts:
        cx.unsupported("is modelled for .row.col only")
    if "block_scale" in ins.parts:
        _scaled(cx, ins)
    else:
        multiply(cx, ins, flags=0)


def _scaled(cx: Emit, ins: Instruction) -> None:
    """D = A B + C where blocks along K have scales, which some lanes bring."""
    if cx.algebra:
        cx.unsupported("has no meaning in the algebra")
    types = [part for part in ins.parts[:-1] if part in _BITS]
    if len(types) != 4 or len(ins.operands) != 8:
        cx.unsupported("is no product with scales that is known")
    shape, rule = shape_of(cx, ins), _rule_of_scales(cx, ins, types, shape_of(cx, ins))
    columns = [items_of(operand) for operand in ins.operands[1:4]]
    inputs = [cx.read(one, "b32") for column in columns for one in column]
    inputs += _scales(cx, ins.operands[4:])
    flags = SHADOW if cx.shadow_on else 0
    flags |= FRACTIONS if ins.parts[-1] == "ue4m3" else 0
    lengths = len(columns[0]), len(columns[1]), len(columns[2])
    kinds = BY_NAME[types[1]].index, BY_NAME[types[2]].index, BY_NAME["f32"].index
    immediate = pack(shape, lengths, kinds, rule, flags)
    results = cx.collective("mma_scaled", inputs, ["b32"] * lengths[2], immediate=immediate)
    for to, result in zip(items_of(ins.operands[0]), results, strict=True):
        write_result(cx, to, result, "f32")


def _rule_of_scales(
    cx: Emit, ins: Instruction, types: Sequence[str], shape: tuple[int, int, int]
) -> SumRule:
    """Return how many products share a scale; `shape` has the K of what is stored of A."""
    kind = next((part for part in ins.parts if part in _SCALED), "")
    if not kind:
        cx.unsupported("is no product with scales that is known")
    depth, counts, scales = _SCALED[kind]
    named = [int(part[11]) for part in ins.parts if part.startswith("scale_vec::")]
    count = named[0] if named else counts[0]
    whole = shape == (16, 8, depth) and types[0] == types[3] == "f32"
    if not whole or count not in counts or ins.parts[-1] not in scales:
        cx.unsupported("has a shape, types or scales that its kind does not have")
    return SumRule(block=depth // count, fraction_bits=0)


def _scales(cx: Emit, operands: Sequence[Operand]) -> list[Value]:
    """Return the scales of A and of B, and in one word which bytes of which lanes hold them."""
    first, second = items_of(operands[0]), items_of(operands[2])  # braces around one or not
    found = [cx.read(one, "b32") for (one,) in (first, second)]
    chosen, poisons = "0", []
    for place, one in enumerate((*items_of(operands[1]), *items_of(operands[3]))):
        value = cx.read(one, "u16")
        poisons.append(value.poison)
        wide = cx.let(f"zext i16 {value.bits} to i32")
        chosen = cx.let(f"or i32 {chosen}, {cx.let(f'shl i32 {wide}, {8 * place}')}")
    return [*found, Value("b32", chosen, cx.either(*poisons))]


def _sparse(cx: Emit, ins: Instruction) -> None:
    """D = A B + C with a sparse A, whose metadata the lanes bring that a selector names."""
    if cx.algebra:
        cx.unsupported("has no meaning in the algebra")
    m, n, k = shape_of(cx, ins)
    scaled = "block_scale" in ins.parts
    types = [part for part in (ins.parts[:-1] if scaled else ins.parts) if part in _BITS]
    selector = ins.operands[5] if len(ins.operands) == (10 if scaled else 6) else None
    if len(types) != 4 or types[0] != types[3] or not isinstance(selector, Immediate):
        cx.unsupported("is no sparse product that is known")
    (d, a, b, c), bits = types, _BITS[types[1]]
    if scaled and k == 128:
        bits = 4
    if (m, n) != (16, 8) or k > (128 if bits == 4 else 64):
        cx.unsupported("has a shape that is not modelled")
    lanes = k // {4: 8, 8: 4, 16: 4, 32: 2}[bits] // 4  # of four, that hold a row's codes
    if not 0 <= selector.bits < 4 // max(lanes, 1):
        cx.unsupported(f"has the selector {selector.bits}, which its shape does not have")
    columns = [items_of(operand) for operand in ins.operands[1:4]]
    inputs = [cx.read(one, "b32") for column in columns for one in column]
    if scaled:
        inputs += _scales(cx, ins.operands[6:])
    inputs.append(cx.read(ins.operands[4], "b32"))
    whole, chosen = a in INTEGERS, selector.bits
    chosen |= (WHOLE if whole else 0) | (ORDERED if "sp::ordered_metadata" in ins.parts else 0)
    chosen |= SCALED if scaled else 0
    inputs.append(Value("b32", str(chosen), "false"))
    rule: SumRule | None = None
    if scaled:
        rule = _rule_of_scales(cx, ins, types, (m, n, k // 2))
    elif not whole:
        rule = instruction_rule(cx.options.arch, _BITS[a] // 8, k // 2)
    if rule is not None and rule.halves and {a, b} & {"e2m1", "e2m3", "e3m2"}:
        cx.unsupported("has factors of 4 or 6 bits, which are modelled for sm_120 and later")
    if rule is not None and rule.halves and c != "f32":
        cx.unsupported("with 8-bit factors and f16 accumulators is not modelled for sm_90")
    kinds = (
        (INTEGERS[a], INTEGERS[b], 0)
        if whole
        else (BY_NAME[a].index, BY_NAME[b].index, BY_NAME[c].index)
    )
    counts = len(columns[0]), len(columns[1]), len(columns[2])
    flags = (SHADOW if cx.shadow_on else 0) | (SATFINITE if "satfinite" in ins.parts else 0)
    flags |= FRACTIONS if ins.parts[-1] == "ue4m3" else 0
    immediate = pack((m, n, k // 2), counts, kinds, rule, flags)
    results = cx.collective("mma_sparse", inputs, ["b32"] * counts[2], immediate=immediate)
    for to, result in zip(items_of(ins.operands[0]), results, strict=True):
        write_result(cx, to, result, d)


def multiply(cx: Emit, ins: Instruction, *, flags: int) -> None:
    """Emit a multiplication of fragments; flags: DEALT for wmma's layout."""
    # The types of D, A, B, C; plain `wmma.mma...f32.f32` means f16 factors.
    known = [part for part in ins.parts if part in _BITS]
    if len(known) == 2 and ins.base == "wmma":
        d, a, b, c = known[0], "f16", "f16", known[1]
    else:
        if len(known) != 4:
            cx.unsupported("names no four types")
        d, a, b, c = known[0], known[1], known[2], known[3]
    if d != c:
        cx.unsupported("has an accumulator of another type than its result")
    if a == "f64":
        _double(cx, ins)
        return
    shape = shape_of(cx, ins)
    columns = [items_of(operand) for operand in ins.operands[1:4]]
    inputs = [cx.read(one, "b32") for column in columns for one in column]
    flags |= SHADOW if cx.shadow_on and not cx.algebra else 0
    flags |= SATFINITE if "satfinite" in ins.parts else 0
    whole = a in INTEGERS
    rule: SumRule | None = None
    if whole:
        kinds = INTEGERS[a], INTEGERS[b], 0
    else:
        kinds = BY_NAME[a].index, BY_NAME[b].index, BY_NAME[c].index
        rule = instruction_rule(cx.options.arch, _BITS[a] // 8, shape[2])
        if rule.halves and {a, b} & {"e2m1", "e2m3", "e3m2"}:
            cx.unsupported("has factors of 4 or 6 bits, which are modelled for sm_120 and later")
        if rule.halves and c != "f32":
            cx.unsupported("with 8-bit factors and f16 accumulators is not modelled for sm_90")
    counts = len(columns[0]), len(columns[1]), len(columns[2])
    immediate = pack(shape, counts, kinds, rule, flags)
    name = "mma_integer" if whole else "mma_float"
    if cx.algebra and not whole:
        results = algebra.products(cx, inputs, (a, b, c), counts, immediate)
    else:
        results = cx.collective(name, inputs, ["b32"] * counts[2], immediate=immediate)
    for to, result in zip(items_of(ins.operands[0]), results, strict=True):
        write_result(cx, to, result, d)


def write_result(cx: Emit, to: Operand, result: Value, type_: str) -> None:
    """Write one register of D; statistics of each of its numbers."""
    if cx.algebra and type_ != "s32":
        cx.copy(to, Value("b32", result.bits, result.poison, result.shadow))
        return
    if type_ == "s32" or not cx.shadow_on:
        cx.write(to, "b32", result.bits, poison=result.poison)
        return
    if type_ == "f16":
        for place in (0, 1):
            moved = cx.let(f"lshr i32 {result.bits}, {16 * place}")
            _count(cx, cx.let(f"trunc i32 {moved} to i16"), "f16", result.lane(place), None)
        cx.copy(to, result)
        return
    _count(cx, result.bits, "f32", result.lane(0), result.lane(1))
    cx.write(to, "b32", result.bits, poison=result.poison, shadow=(result.lane(0),))


def _count(cx: Emit, bits: str, type_: str, shadow: str, made: str | None) -> None:
    """Add a result to the statistics; `made` is the error of this instruction alone."""
    actual = as_double(cx, bits, type_)
    exact = exactly(cx, actual, shadow)
    delta(cx, actual, exact, exact if made is None else exactly(cx, actual, made))


def _double(cx: Emit, ins: Instruction) -> None:
    """f64: a chain of fused multiply-adds in the order of k."""
    columns = [items_of(operand) for operand in ins.operands[1:4]]
    inputs = [cx.read(one, "f64") for column in columns for one in column]
    counts = len(columns[0]), len(columns[1]), len(columns[2])
    flags = DEALT if ins.base == "wmma" else 0
    immediate = pack(shape_of(cx, ins), counts, (6, 6, 6), None, flags)
    results = cx.collective("mma_double", inputs, ["f64"] * counts[2], immediate=immediate)
    for to, result in zip(items_of(ins.operands[0]), results, strict=True):
        cx.write(to, "f64", result.bits, poison=result.poison)


@emits("ldmatrix")
def emit_load_matrix(cx: Emit, ins: Instruction) -> None:
    """Load matrices of halves or bytes: lanes one after the other give the rows of each."""
    count, rows, bits = _matrices(cx, ins)
    words = _WORDS[bits]
    address, space = cells.address(cx, ins.operands[1], space_of(ins))[0], space_of(ins)
    # The words of this lane's row but for its padding; zeros in lanes whose address is not used.
    if count * rows == 32:
        cell = cells.access_at(cx, address, space, 16, "read")
        inputs = [cells.load(cx, cell, 4 * index, "b32") for index in range(words)]
    else:
        lane = lane_of(cx)
        used = cx.let(f"icmp ult i32 {lane}, {rows * count}")
        read, join, start = cx.fresh("row"), cx.fresh("rows"), cx.fresh("start")
        cx.label(start)
        cx.branch(used, read, join)
        cx.label(read)
        cell = cells.access_at(cx, address, space, 16, "read")
        loaded = [cells.load(cx, cell, 4 * index, "b32") for index in range(words)]
        end = cx.fresh("end")
        cx.label(end)
        cx.label(join)
        inputs = [_merged(cx, one, end, start) for one in loaded]
    registers = count * rows // 8
    if bits == 16:
        name, immediate = "ldmatrix", count | int("trans" in ins.parts) << 4
    else:
        name, immediate = "ldmatrix_bytes", registers | (rows // 16) << 4 | bits << 5
    results = cx.collective(name, inputs, ["b32"] * registers, immediate=immediate)
    for to, result in zip(items_of(ins.operands[0]), results, strict=True):
        cx.copy(to, result)


# Bits of an element, and words of a row that hold elements: 8 halves, or 16 of what is smaller.
_WORDS = {16: 4, 8: 4, 6: 3, 4: 2}
# Of a load or store: instruction, shape, type in memory, whether it is transposed: any for None.
_MATRICES = {
    ("ldmatrix", "m8n8", "b16", None): (8, 16),
    ("ldmatrix", "m16n16", "b8", True): (16, 8),
    ("ldmatrix", "m16n16", "b6x16_p32", True): (16, 6),
    ("ldmatrix", "m16n16", "b4x16_p64", True): (16, 4),
    ("ldmatrix", "m8n16", "b6x16_p32", False): (8, 6),
    ("ldmatrix", "m8n16", "b4x16_p64", False): (8, 4),
    ("stmatrix", "m8n8", "b16", None): (8, 16),
    ("stmatrix", "m16n8", "b8", True): (8, 8),
}


def _matrices(cx: Emit, ins: Instruction) -> tuple[int, int, int]:
    """Return how many matrices move, rows of each that lanes give, and bits of an element."""
    shape = next((part for part in ins.parts if re.fullmatch(r"m\d+n\d+", part)), "")
    kind, turned = (ins.base, shape, ins.parts[-1]), "trans" in ins.parts
    found = _MATRICES.get((*kind, None)) or _MATRICES.get((*kind, turned))
    count = next((int(part[1]) for part in ins.parts if part in ("x1", "x2", "x4")), 0)
    if found is None or not 0 < found[0] * count <= 32:
        cx.unsupported("has a shape that PTX does not have for this type")
    return count, *found


def _merged(cx: Emit, value: Value, end: str, start: str) -> Value:
    bits = cx.let(f"phi i32 [ {value.bits}, %{end} ], [ 0, %{start} ]")
    poison = cx.let(f"phi i1 [ {value.poison}, %{end} ], [ false, %{start} ]")
    shadow = tuple(
        cx.let(f"phi double [ {one}, %{end} ], [ 0.0, %{start} ]") for one in value.shadow
    )
    return Value("b32", bits, poison, shadow)


def lane_of(cx: Emit) -> str:
    return cx.read(Register("%laneid"), "u32").bits


@emits("stmatrix")
def emit_store_matrix(cx: Emit, ins: Instruction) -> None:
    """Store matrices of halves, the reverse of ldmatrix, or of bytes."""
    count, _, bits = _matrices(cx, ins)
    inputs = [cx.read(one, "b32") for one in items_of(ins.operands[1])]
    immediate = count | int("trans" in ins.parts) << 4
    target, name = ins.operands[:1], "stmatrix" if bits == 16 else "stmatrix_bytes"
    words = cx.collective(name, inputs, ["b32"] * 4, immediate=immediate, keep=target)
    address, space = cells.address(cx, ins.operands[0], space_of(ins))[0], space_of(ins)
    done = cx.fresh("stored")
    if count < 4:
        store = cx.fresh("store")
        used = cx.let(f"icmp ult i32 {lane_of(cx)}, {8 * count}")
        cx.branch(used, store, done)
        cx.label(store)
    cell = cells.access_at(cx, address, space, 16, "write")
    for index, word in enumerate(words):
        cells.store(cx, cell, 4 * index, word)
    cx.label(done)


@emits("movmatrix")
def emit_move_matrix(cx: Emit, ins: Instruction) -> None:
    """Transpose an 8 x 8 matrix of halves across the warp."""
    value = cx.read(ins.operands[1], "b32")
    (result,) = cx.collective("movmatrix", [value], ["b32"])
    cx.copy(ins.operands[0], result)


def _fragment(cx: Emit, ins: Instruction) -> tuple[str, int, int, str]:
    """Return (a, b, c or d), rows, columns and type of a wmma load or store."""
    m, n, k = shape_of(cx, ins)
    which = next(part for part in ins.parts if part in ("a", "b", "c", "d"))
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    type_ = ins.parts[-1]
    if type_ not in _BITS or _BITS[type_] < 8:
        cx.unsupported("has elements of a type that is not modelled")
    return which, rows, columns, type_


def _addresses(
    cx: Emit, ins: Instruction, stride: Operand | None, base: str
) -> list[tuple[int, int, str]]:
    """Return (register, element, i64 address) of every element that this lane holds."""
    which, rows, columns, type_ = _fragment(cx, ins)
    registers = len(items_of(ins.operands[0 if "load" in ins.parts else 1]))
    each = max(1, 32 // _BITS[type_])
    by_row = "row" in ins.parts
    if stride is None:
        step = str(columns if by_row else rows)
    else:
        step = cx.let(f"zext i32 {cx.read(stride, 'u32').bits} to i64")
    lane = cx.let(f"zext i32 {lane_of(cx)} to i64")
    found = []
    for register in range(registers):
        for element in range(each):
            index = _linear(cx, which, type_, lane, (register, element, each), rows * columns)
            row, column = (
                cx.let(f"udiv i64 {index}, {columns}"),
                cx.let(f"urem i64 {index}, {columns}"),
            )
            outer, inner = (row, column) if by_row else (column, row)
            place = cx.let(f"add i64 {cx.let(f'mul i64 {outer}, {step}')}, {inner}")
            place = cx.let(f"mul i64 {place}, {_BITS[type_] // 8}")
            found.append((register, element, cx.let(f"add i64 {base}, {place}")))
    return found


def _linear(
    cx: Emit, which: str, type_: str, lane: str, at: tuple[int, int, int], total: int
) -> str:
    """Return the row-major index of an element, as `runtime.fragments` deals them out."""
    register, element, each = at
    if which in ("c", "d") and type_ != "f64":
        number = register * each + element
        pair = cx.let(f"add i64 {lane}, {(number >> 1) * 32}")
        doubled = cx.let(f"shl i64 {pair}, 1")
        return cx.let(f"add i64 {doubled}, {number & 1}")
    held = max(1, total // (32 * each))  # registers beyond these repeat the first ones
    moved = cx.let(f"add i64 {lane}, {(register % held) * 32}")
    return cx.let(f"add i64 {cx.let(f'mul i64 {moved}, {each}')}, {element}")


@emits("wmma", where=lambda ins: "load" in ins.parts)
def emit_wmma_load(cx: Emit, ins: Instruction) -> None:
    """Load a fragment: every lane reads its own elements."""
    _, _, _, type_ = _fragment(cx, ins)
    space, bits = space_of(ins), _BITS[type_]
    stride = ins.operands[2] if len(ins.operands) > 2 else None
    base = cells.address(cx, ins.operands[1], space)[0]
    words: dict[int, list[Value]] = {}
    for register, _, address in _addresses(cx, ins, stride, base):
        cell = cells.access_at(cx, address, space, bits // 8, "read")
        words.setdefault(register, []).append(cells.load(cx, cell, 0, f"b{bits}"))
    for register, to in enumerate(items_of(ins.operands[0])):
        # Write the elements of one register, packed.
        parts = words[register]
        if len(parts) == 1:
            cx.copy(to, parts[0])
        else:
            word = "0"
            for place, part in enumerate(parts):
                wide = cx.let(f"zext i{bits} {part.bits} to i32")
                word = cx.let(f"or i32 {word}, {cx.let(f'shl i32 {wide}, {bits * place}')}")
            shadow = tuple(part.lane(0) for part in parts) if bits == 16 else ()
            cx.write(to, "b32", word, sources=tuple(parts), shadow=shadow)


@emits("wmma", where=lambda ins: "store" in ins.parts)
def emit_wmma_store(cx: Emit, ins: Instruction) -> None:
    """Store an accumulator fragment: every lane writes its own elements."""
    _, _, _, type_ = _fragment(cx, ins)
    space, bits = space_of(ins), _BITS[type_]
    stride = ins.operands[2] if len(ins.operands) > 2 else None
    base = cells.address(cx, ins.operands[0], space)[0]
    registers = [cx.read(one, f"b{max(32, bits)}") for one in items_of(ins.operands[1])]
    for register, element, address in _addresses(cx, ins, stride, base):
        value = registers[register]
        if bits < 32:
            moved = cx.let(f"lshr i32 {value.bits}, {bits * element}")
            low = cx.let(f"trunc i32 {moved} to i{bits}")
            value = Value(f"b{bits}", low, value.poison, (value.lane(element),))
        cell = cells.access_at(cx, address, space, bits // 8, "write")
        cells.store(cx, cell, 0, value)


@emits("wmma", where=lambda ins: "mma" in ins.parts)
def emit_wmma_mma(cx: Emit, ins: Instruction) -> None:
    """D = A B + C on wmma fragments."""
    multiply(cx, ins, flags=DEALT)
