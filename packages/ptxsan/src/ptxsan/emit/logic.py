"""Bits: and, or, xor, not, shifts, fields, counts, permutations."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import ZERO, Value, is_signed, ones_of
from ptxsan.runtime import layout
from ptxsan.syntax import Immediate, Instruction

# What clears bit 24 of an address, and keeps the higher ones: CUTLASS and Triton name the first
# block of a pair so, whose hardware has the rank there (here it is in other bits, plus one).
_LEADER = 0xFEFF
_HALVES = {0x10: ("a", 0), 0x32: ("a", 1), 0x54: ("b", 0), 0x76: ("b", 1)}


@emits("and", "or", "xor")
def emit_logic(cx: Emit, ins: Instruction) -> None:
    """Bitwise operation. A defined operand that decides the result hides an uninitialised one."""
    type_ = ins.parts[-1]
    a, b = (cx.read(one, type_) for one in ins.operands[1:3])
    kind = f"i{a.width}"
    bits = cx.let(f"{ins.base} {kind} {a.bits}, {b.bits}")
    if ins.base == "and" and a.width == 32 and cx.program.has_pairs:
        masks = [one for one in ins.operands[1:3] if isinstance(one, Immediate)]
        if any(one.bits >> 16 & 0xFFFF == _LEADER for one in masks):
            # The same place of the first block of a pair, where an address is of the second
            rank = cx.let(f"lshr i32 {bits}, 27")
            own = cx.load_field("%block", layout.CLUSTER_RANK)
            named = cx.let(f"sub i32 {rank}, 1")
            none = cx.let(f"icmp eq i32 {rank}, 0")
            home = cx.let(f"select i1 {none}, i32 {own}, i32 {named}")
            second = cx.let(f"trunc i32 {home} to i1")
            low = cx.let(f"and i32 {bits}, {(1 << 27) - 1}")
            first = cx.let(f"or i32 {low}, {cx.let(f'shl i32 {home}, 27')}")
            bits = cx.let(f"select i1 {second}, i32 {first}, i32 {bits}")
    poison = cx.either(a.poison, b.poison)
    undefined = ""
    if poison != "false" and (a.undefined or b.undefined):
        # The marks of both operands, less the bytes that a constant decides.
        undefined = cx.let(f"or i{a.width} {cx.undefined(a)}, {cx.undefined(b)}")
        for operand in ins.operands[1:3]:
            if isinstance(operand, Immediate) and ins.base != "xor":
                decided = 0 if ins.base == "and" else 0xFF
                given = (operand.bits & ((1 << a.width) - 1)).to_bytes(a.width // 8, "little")
                kept = int.from_bytes(bytes(int(one != decided) for one in given), "little")
                undefined = cx.let(f"and i{a.width} {undefined}, {kept}")
    if poison != "false" and ins.base != "xor":
        absorbing = "0" if ins.base == "and" else "-1"
        parts = []
        for one, other in ((a, b), (b, a)):
            if one.poison != "false":
                open_ = cx.let(f"icmp ne {kind} {other.bits}, {absorbing}")
                open_ = cx.either(open_, other.poison)
                parts.append(cx.let(f"and i1 {one.poison}, {open_}"))
        poison = cx.either(*parts)
        if undefined:
            undefined = cx.let(f"select i1 {poison}, {kind} {undefined}, {kind} 0")
    cx.write(ins.operands[0], type_, bits, poison=poison, undefined=undefined)


@emits("not", "cnot")
def emit_not(cx: Emit, ins: Instruction) -> None:
    """Complement, bitwise or logical."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    if ins.base == "not":
        bits = cx.let(f"xor i{a.width} {a.bits}, -1")
    else:
        bits = cx.let(f"zext i1 {cx.let(f'icmp eq i{a.width} {a.bits}, 0')} to i{a.width}")
    cx.write(ins.operands[0], type_, bits, sources=(a,))


def _shifted_marks(cx: Emit, ins: Instruction, a: Value) -> str:
    """Return where the marks of a value's bytes are after a shift by a constant."""
    by = ins.operands[2]
    if not a.undefined or not isinstance(by, Immediate):
        return ""
    kind, amount = f"i{a.width}", min(by.bits & 0xFFFFFFFF, a.width)
    left = ins.base == "shl"
    found = "0"
    for step in sorted({amount // 8, -(-amount // 8)}):
        if 8 * step < a.width:
            moved = cx.let(f"{'shl' if left else 'lshr'} {kind} {a.undefined}, {8 * step}")
            found = cx.let(f"or {kind} {found}, {moved}")
    if not left and is_signed(a.type) and amount:  # copies of the sign are as the top byte is
        top = cx.let(f"lshr {kind} {a.undefined}, {a.width - 8}")
        filled = ones_of(a.width) - ones_of(a.width - 8 * -(-amount // 8))
        found = cx.let(f"or {kind} {found}, {cx.let(f'mul {kind} {top}, {filled}')}")
    return found


@emits("shl", "shr")
def emit_shift(cx: Emit, ins: Instruction) -> None:
    """Shift; amounts of the width or more give 0 or copies of the sign."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    amount = cx.read(ins.operands[2], "u32")
    width, kind = a.width, f"i{a.width}"
    cut = cx.call("i32", "llvm.umin.i32", ("i32", amount.bits), ("i32", str(width - 1)))
    by = _resize(cx, cut, 32, width)
    signed = ins.base == "shr" and is_signed(type_)
    name = "shl" if ins.base == "shl" else ("ashr" if signed else "lshr")
    bits = cx.let(f"{name} {kind} {a.bits}, {by}")
    if not signed:
        inside = cx.let(f"icmp ult i32 {amount.bits}, {width}")
        bits = cx.let(f"select i1 {inside}, {kind} {bits}, {kind} 0")
    moved: tuple[str, ...] = ()
    constant = ins.operands[2]
    if isinstance(constant, Immediate) and constant.bits == 16 and len(a.shadow) == 2:
        moved = (a.shadow[0], a.shadow[0]) if ins.base == "shl" else (a.shadow[1], ZERO)
    cx.write(
        ins.operands[0], type_, bits, sources=(a, amount), shadow=moved,
        undefined=_shifted_marks(cx, ins, a),
    )  # fmt: skip


def _resize(cx: Emit, text: str, have: int, want: int) -> str:
    if have == want:
        return text
    return cx.let(f"{'trunc' if have > want else 'zext'} i{have} {text} to i{want}")


@emits("shf")
def emit_funnel_shift(cx: Emit, ins: Instruction) -> None:
    """Shift of a pair of registers, by the amount modulo 32 (wrap) or at most 32 (clamp)."""
    a, b = (cx.read(one, "b32") for one in ins.operands[1:3])
    amount = cx.read(ins.operands[3], "u32")
    pair = _pair(cx, a, b)
    if "wrap" in ins.parts:
        cut = cx.let(f"and i32 {amount.bits}, 31")
    else:
        cut = cx.call("i32", "llvm.umin.i32", ("i32", amount.bits), ("i32", "32"))
    by = cx.let(f"zext i32 {cut} to i64")
    if "l" in ins.parts:
        moved = cx.let(f"lshr i64 {cx.let(f'shl i64 {pair}, {by}')}, 32")
    else:
        moved = cx.let(f"lshr i64 {pair}, {by}")
    cx.write(ins.operands[0], "b32", cx.let(f"trunc i64 {moved} to i32"), sources=(a, b, amount))


def _pair(cx: Emit, low: Value, high: Value) -> str:
    top = cx.let(f"shl i64 {cx.let(f'zext i32 {high.bits} to i64')}, 32")
    return cx.let(f"or i64 {top}, {cx.let(f'zext i32 {low.bits} to i64')}")


@emits("lop3")
def emit_lookup(cx: Emit, ins: Instruction) -> None:
    """Any logical function of three operands, by its truth table."""
    values = [cx.read(one, "b32") for one in ins.operands[1:4]]
    table = ins.operands[4]
    if not isinstance(table, Immediate):
        cx.unsupported("needs a constant table")
    inverted = [cx.let(f"xor i32 {one.bits}, -1") for one in values]
    result = "0"
    for index in range(8):
        if table.bits >> index & 1:
            term = "-1"
            for position, value in enumerate(values):
                used = value.bits if index >> (2 - position) & 1 else inverted[position]
                term = cx.let(f"and i32 {term}, {used}")
            result = cx.let(f"or i32 {result}, {term}")
    cx.write(ins.operands[0], "b32", result, sources=tuple(values))


@emits("popc", "clz", "brev", "bfind", "fns")
def emit_count(cx: Emit, ins: Instruction) -> None:
    """Bits counted, reversed or found."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    kind = f"i{a.width}"
    if ins.base == "brev":
        bits = cx.call(kind, f"llvm.bitreverse.{kind}", (kind, a.bits))
        cx.write(ins.operands[0], type_, bits, sources=(a,))
        return
    if ins.base == "popc":
        bits = cx.call(kind, f"llvm.ctpop.{kind}", (kind, a.bits))
    elif ins.base == "clz":
        bits = cx.call(kind, f"llvm.ctlz.{kind}", (kind, a.bits), ("i1", "false"))
    elif ins.base == "bfind":
        bits = _find(cx, ins, a, kind)
    else:
        cx.unsupported("is not supported")
    cx.write(ins.operands[0], "u32", _resize(cx, bits, a.width, 32), sources=(a,))


def _find(cx: Emit, ins: Instruction, a: Value, kind: str) -> str:
    """The position of the highest bit that differs from the sign; all ones where there is none."""
    bits = a.bits
    if is_signed(a.type):
        sign = cx.let(f"ashr {kind} {bits}, {a.width - 1}")
        bits = cx.let(f"xor {kind} {bits}, {sign}")
    leading = cx.call(kind, f"llvm.ctlz.{kind}", (kind, bits), ("i1", "false"))
    place = leading
    if "shiftamt" not in ins.parts:
        place = cx.let(f"sub {kind} {a.width - 1}, {leading}")
    none = cx.let(f"icmp eq {kind} {bits}, 0")
    return cx.let(f"select i1 {none}, {kind} -1, {kind} {place}")


@emits("bmsk")
def emit_mask(cx: Emit, ins: Instruction) -> None:
    """A mask of b ones from bit a on; beyond 31 they clamp or wrap. PTX ISA, "bmsk"."""
    a, b = (cx.read(one, "u32") for one in ins.operands[1:3])
    place = cx.let(f"zext i32 {cx.let(f'and i32 {a.bits}, 31')} to i64")
    if "clamp" in ins.parts:
        width = cx.call("i32", "llvm.umin.i32", ("i32", b.bits), ("i32", "32"))
    else:
        width = cx.let(f"and i32 {b.bits}, 31")
    power = cx.let(f"shl i64 1, {cx.let(f'zext i32 {width} to i64')}")
    ones = cx.let(f"shl i64 {cx.let(f'sub i64 {power}, 1')}, {place}")
    found = cx.let(f"trunc i64 {ones} to i32")
    if "clamp" in ins.parts:
        inside = cx.let(f"icmp ult i32 {a.bits}, 32")
        found = cx.let(f"select i1 {inside}, i32 {found}, i32 0")
    cx.write(ins.operands[0], "b32", found, sources=(a, b))


@emits("szext")
def emit_extension(cx: Emit, ins: Instruction) -> None:
    """The low b bits of a, extended; a b beyond 31 clamps or wraps. PTX ISA, "szext"."""
    type_ = ins.parts[-1]
    a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], "u32")
    if "clamp" in ins.parts:
        width = cx.call("i32", "llvm.umin.i32", ("i32", b.bits), ("i32", "32"))
    else:
        width = cx.let(f"and i32 {b.bits}, 31")
    by = cx.let(f"zext i32 {cx.let(f'sub i32 32, {width}')} to i64")  # 32 for no bits at all
    up = cx.let(f"shl i64 {cx.let(f'zext i32 {a.bits} to i64')}, {by}")
    top = cx.let(f"trunc i64 {up} to i32")
    signed = is_signed(type_)
    wide = cx.let(f"{'sext' if signed else 'zext'} i32 {top} to i64")
    down = cx.let(f"{'ashr' if signed else 'lshr'} i64 {wide}, {by}")
    cx.write(ins.operands[0], type_, cx.let(f"trunc i64 {down} to i32"), sources=(a, b))


@emits("bfe")
def emit_extract(cx: Emit, ins: Instruction) -> None:
    """A field of bits; beyond the top it is filled with the sign or zeros."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    start, length = (_byte(cx, ins, index) for index in (2, 3))
    wide = "i128"  # room for any start and length without undefined shifts
    value = cx.let(f"{'sext' if is_signed(type_) else 'zext'} i{a.width} {a.bits} to {wide}")
    moved = cx.let(f"{'ashr' if is_signed(type_) else 'lshr'} {wide} {value}, {_cut(cx, start)}")
    rest = cx.let(f"sub {wide} 128, {_cut(cx, length)}")
    rest = cx.call(wide, "llvm.umin.i128", (wide, rest), (wide, "127"))
    up = cx.let(f"shl {wide} {moved}, {rest}")
    down = cx.let(f"{'ashr' if is_signed(type_) else 'lshr'} {wide} {up}, {rest}")
    empty = cx.let(f"icmp eq i32 {length.bits}, 0")
    field = cx.let(f"select i1 {empty}, {wide} 0, {wide} {down}")
    bits = cx.let(f"trunc {wide} {field} to i{a.width}")
    cx.write(ins.operands[0], type_, bits, sources=(a, start, length))


def _byte(cx: Emit, ins: Instruction, index: int) -> Value:
    value = cx.read(ins.operands[index], "u32")
    if ins.parts[-1].endswith("64"):  # all 32 bits count, as on the hardware
        return value
    return Value("u32", cx.let(f"and i32 {value.bits}, 255"), value.poison)


def _cut(cx: Emit, value: Value) -> str:
    cut = cx.call("i32", "llvm.umin.i32", ("i32", value.bits), ("i32", "127"))
    return cx.let(f"zext i32 {cut} to i128")


@emits("bfi")
def emit_insert(cx: Emit, ins: Instruction) -> None:
    """Put the low bits of `a` into a field of `b`."""
    type_ = ins.parts[-1]
    a, b = (cx.read(one, type_) for one in ins.operands[1:3])
    start, length = (_byte(cx, ins, index) for index in (3, 4))
    wide = "i128"
    ones = cx.let(f"sub {wide} {cx.let(f'shl {wide} 1, {_cut(cx, length)}')}, 1")
    mask = cx.let(f"shl {wide} {ones}, {_cut(cx, start)}")
    moved = cx.let(f"shl {wide} {cx.let(f'zext i{a.width} {a.bits} to {wide}')}, {_cut(cx, start)}")
    old = cx.let(f"zext i{b.width} {b.bits} to {wide}")
    kept = cx.let(f"and {wide} {old}, {cx.let(f'xor {wide} {mask}, -1')}")
    field = cx.let(f"or {wide} {kept}, {cx.let(f'and {wide} {moved}, {mask}')}")
    bits = cx.let(f"trunc {wide} {field} to i{a.width}")
    cx.write(ins.operands[0], type_, bits, sources=(a, b, start, length))


@emits("prmt")
def emit_permute(cx: Emit, ins: Instruction) -> None:
    """Pick four bytes of two registers (generic mode: by four selectors of four bits)."""
    if ins.parts[-1] != "b32":
        cx.unsupported("is known in its generic mode only")
    a, b, selector = (cx.read(one, "b32") for one in ins.operands[1:4])
    pair = _pair(cx, a, b)
    result = "0"
    for index in range(4):
        chosen = cx.let(f"and i32 {cx.let(f'lshr i32 {selector.bits}, {4 * index}')}, 7")
        by = cx.let(f"zext i32 {cx.let(f'shl i32 {chosen}, 3')} to i64")
        byte = cx.let(f"trunc i64 {cx.let(f'lshr i64 {pair}, {by}')} to i8")
        sign = cx.let(f"ashr i8 {byte}, 7")
        flag = cx.let(f"and i32 {selector.bits}, {8 << (4 * index)}")
        plain = cx.let(f"icmp eq i32 {flag}, 0")
        byte = cx.let(f"select i1 {plain}, i8 {byte}, i8 {sign}")
        moved = cx.let(f"shl i32 {cx.let(f'zext i8 {byte} to i32')}, {8 * index}")
        result = cx.let(f"or i32 {result}, {moved}")
    shadow = _permuted(ins, a, b)
    cx.write(
        ins.operands[0], "b32", result, sources=(a, b, selector), shadow=shadow,
        undefined=_permuted_marks(cx, ins, a, b),
    )  # fmt: skip


def _permuted_marks(cx: Emit, ins: Instruction, a: Value, b: Value) -> str:
    """Return the marks of the bytes that a constant selector picks."""
    selector = ins.operands[3]
    if not isinstance(selector, Immediate) or not (a.undefined or b.undefined):
        return ""
    marks = [cx.undefined(a), cx.undefined(b)]
    found = "0"
    for index in range(4):
        which = selector.bits >> (4 * index) & 7
        byte = cx.let(f"lshr i32 {marks[which // 4]}, {8 * (which % 4)}")
        placed = cx.let(f"shl i32 {cx.let(f'and i32 {byte}, 1')}, {8 * index}")
        found = cx.let(f"or i32 {found}, {placed}")
    return found


def _permuted(ins: Instruction, a: Value, b: Value) -> tuple[str, ...]:
    """Shadows follow halves that are moved whole by a constant selector."""
    selector = ins.operands[3]
    if not isinstance(selector, Immediate):
        return ()
    lanes = []
    for half in (selector.bits & 0xFF, selector.bits >> 8 & 0xFF):
        source = _HALVES.get(half)
        value = None if source is None else (a if source[0] == "a" else b)
        lanes.append(ZERO if value is None or source is None else value.lane(source[1]))
    return tuple(lanes)
