"""Residues beside bits: what each float instruction does in the algebra (`numerics.residues`).

The instruction's own emitter makes the bits, with shadows off; then its destination gets the slots
that its operands give. Instructions that only move values keep their emitters, whose shadows are
slots here. Maxima, selections and branches follow the bits.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsan.emit.context import Emit
from ptxsan.emit.float32 import rounds_on_purpose
from ptxsan.emit.values import ZERO, Value
from ptxsan.numerics.formats import BY_NAME
from ptxsan.runtime import algebra as A
from ptxsan.runtime import layout
from ptxsan.syntax import Immediate, Instruction, Operand, Register

_BINARY = {"add": A.ADD, "sub": A.SUB, "mul": A.MUL, "div": A.DIV}
_UNARY = {
    "rcp": A.RCP, "sqrt": A.SQRT, "rsqrt": A.RSQRT, "ex2": A.EX2, "lg2": A.LG2, "sin": A.SIN,
    "cos": A.COS, "tanh": A.TANH,
}  # fmt: skip
_OTHERS = frozenset(("fma", "mad", "neg", "abs", "min", "max", "copysign"))
_COMPUTED = frozenset((*_BINARY, *_UNARY, *_OTHERS))
_FLOATS = frozenset(("f16", "bf16", "f16x2", "bf16x2", "f32", "f64"))
_WHOLE = frozenset(("u16", "s16", "u32", "s32", "u64", "s64"))
_INTEGRAL = frozenset(("rni", "rzi", "rmi", "rpi"))
_SIGNS = {0x7FFFFFFF: (0,), 0x80000000: (0,), 0x7FFF7FFF: (0, 1), 0x80008000: (0, 1)}
Emitter = Callable[[Emit, Instruction], None]
Lanes = list[str]


def emit(cx: Emit, ins: Instruction, emitter: Emitter) -> None:
    """Emit an instruction; in the algebra with the residues of its results."""
    made = _plan(ins) if cx.algebra else None
    if made is None:
        emitter(cx, ins)
        return
    sources = [_source(cx, ins, one) for one in ins.operands[1:]]
    cx.shadow_on = False
    emitter(cx, ins)
    cx.shadow_on = True
    to = ins.operands[0]
    cells = cx.frame.shadows(to.name) if isinstance(to, Register) and to.name != "_" else []
    if cells:
        for cell, slot in zip(cells, made(cx, ins, sources), strict=False):
            cx.line(f"store i64 {slot}, ptr {cell}")


_Plan = Callable[[Emit, Instruction, list[Value | None]], Lanes]


def _plan(ins: Instruction) -> _Plan | None:
    """Return what makes the residues of an instruction; None for one that moves values."""
    type_ = ins.parts[-1]
    if ins.base in _COMPUTED and type_ in _FLOATS:
        return _computed
    if ins.base == "cvt":
        return _packed if ins.parts[-2] in ("f16x2", "bf16x2") else _converted
    if ins.base in ("and", "or", "xor") and type_ in ("b32", "b16"):
        return _logic
    return None


def _source(cx: Emit, ins: Instruction, operand: Operand) -> Value | None:
    """Return an operand as the instruction reads it."""
    if not isinstance(operand, Register | Immediate):
        return None
    type_ = ins.parts[-1]
    return cx.read(
        operand,
        "b16" if type_.endswith("x2") and ins.base == "cvt" and type_ not in _FLOATS else type_,
    )


def slot_of(cx: Emit, value: Value, lane: int = 0) -> str:
    """Return the slot of a lane as i64."""
    text = value.lane(lane)
    return "0" if text == ZERO else cx.let(f"bitcast double {text} to i64")


def as_shadow(cx: Emit, slot: str) -> str:
    """Return a slot as what registers and cells hold."""
    return cx.let(f"bitcast i64 {slot} to double")


def _bits(cx: Emit, value: Value, lane: int) -> str:
    """Return the bits of a lane as i64."""
    bits, width = value.bits, value.width
    if value.type.endswith("x2"):
        bits = cx.let(f"trunc i32 {cx.let(f'lshr i32 {bits}, {16 * lane}')} to i16")
        width = 16
    return bits if width == 64 else cx.let(f"zext i{width} {bits} to i64")


def _index(type_: str) -> tuple[str, str]:
    return "i32", str(BY_NAME[type_.removesuffix("x2")].index)


def _call(cx: Emit, name: str, *arguments: tuple[str, str]) -> str:
    return cx.call("i64", name, ("i64", "%launch.i"), *arguments)


def _pair(cx: Emit, value: Value, lane: int) -> list[tuple[str, str]]:
    return [("i64", _bits(cx, value, lane)), ("i64", slot_of(cx, value, lane))]


def resolve(cx: Emit, value: Value, lane: int, type_: str) -> str:
    """Return the residue of a lane of a value of a float type, or NONE where it is not finite."""
    return _call(cx, "al_resolve", *_pair(cx, value, lane), _index(type_))


def combine(cx: Emit, operation: str, a: Value, b: Value, lane: int = 0) -> str:
    """Return the slot of a sum, difference, product or quotient of two floats of one type."""
    pairs = _pair(cx, a, lane) + _pair(cx, b, lane)
    return _call(cx, "al_binary", ("i32", str(_BINARY[operation])), *pairs, _index(a.type))


def resolved(cx: Emit, value: Value, type_: str) -> Value:
    """Return a word of a fragment with the residues of its elements; 8-bit ones have none."""
    if type_ in ("e4m3", "e5m2"):
        return Value(value.type, value.bits, value.poison)
    if type_ in ("tf32", "f32"):
        slots = [resolve(cx, Value("f32", value.bits, shadow=value.shadow), 0, "f32")]
    else:
        pair = Value(f"{type_}x2", value.bits, shadow=value.shadow)
        slots = [resolve(cx, pair, lane, type_) for lane in (0, 1)]
    shadow = tuple(as_shadow(cx, slot) for slot in slots)
    return Value(value.type, value.bits, value.poison, shadow)


def products(
    cx: Emit,
    inputs: list[Value],
    types: tuple[str, str, str],
    counts: tuple[int, int, int],
    immediate: int,
) -> list[Value]:
    """Return the words of D of a matrix product, with the residues of their elements.

    `inputs` are the words of A, B and C, `counts` how many of each. The handler of the bits is
    handed over as one more word: a thread cannot keep the operands while it waits a second time.
    """
    every = [type_ for type_, count in zip(types, counts, strict=True) for _ in range(count)]
    given = [resolved(cx, word, type_) for word, type_ in zip(inputs, every, strict=True)]
    key = ("mma_float", len(given) + 1, counts[2], immediate)
    number = cx.parts.collectives.setdefault(key, len(cx.parts.collectives))
    table = cx.load_field("%launch", layout.COLLECTIVES, "ptr")
    place = layout.C_RECORD * number + layout.C_HANDLER
    handler = cx.let(f"load i64, ptr {cx.let(f'getelementptr i8, ptr {table}, i64 {place}')}")
    given.append(Value("u64", handler))
    return cx.collective("mma_algebra", given, ["b32"] * counts[2], immediate=immediate)


def _computed(cx: Emit, ins: Instruction, sources: list[Value | None]) -> Lanes:
    if rounds_on_purpose(cx, ins):
        return ["0"]
    values = [one for one in sources if one is not None]
    type_ = ins.parts[-1]
    result = cx.read(ins.operands[0], type_)
    found = []
    for lane in range(2 if type_.endswith("x2") else 1):
        slot = _result(cx, ins, values, result, lane)
        if "sat" in ins.parts or "relu" in ins.parts:
            bits = ("i64", _bits(cx, result, lane))
            slot = cx.call("i64", "al_clamped", ("i64", slot), bits, _index(type_))
        found.append(slot)
    return found


def _result(cx: Emit, ins: Instruction, values: list[Value], result: Value, lane: int) -> str:
    base, index = ins.base, _index(ins.parts[-1])
    bits = ("i64", _bits(cx, result, lane))
    if base in _BINARY:
        return combine(cx, base, values[0], values[1], lane)
    if base in ("fma", "mad"):
        triple = [each for one in values[:3] for each in _pair(cx, one, lane)]
        return _call(cx, "al_fma", *triple, index)
    if base in _UNARY:
        operation = ("i32", str(_UNARY[base]))
        return _call(cx, "al_unary", operation, *_pair(cx, values[0], lane), index, bits)
    if base in ("min", "max"):
        pairs = _pair(cx, values[0], lane) + _pair(cx, values[1], lane)
        return _call(cx, "al_choose", *pairs, bits, index)
    value = values[1] if base == "copysign" else values[0]
    return _signed(cx, value, result, lane)


def _signed(cx: Emit, value: Value, result: Value, lane: int) -> str:
    """Return the slot of a value whose sign may have changed: neg, abs, copysign."""
    slot = slot_of(cx, value, lane)
    turned = cx.call("i64", "al_negate", ("i64", slot))
    width = 16 if value.type.endswith("x2") else value.width
    top = cx.let(f"xor i64 {_bits(cx, value, lane)}, {_bits(cx, result, lane)}")
    differ = cx.let(f"icmp ne i64 {cx.let(f'and i64 {top}, {1 << (width - 1)}')}, 0")
    return cx.let(f"select i1 {differ}, i64 {turned}, i64 {slot}")


def _converted(cx: Emit, ins: Instruction, sources: list[Value | None]) -> Lanes:
    """A conversion between formats changes nothing; one to whole numbers is decided by the bits."""
    to, source = ins.parts[-2], ins.parts[-1]
    value = sources[0]
    if value is None:
        return []
    if to in _WHOLE and source in _WHOLE:  # a half on its way to the upper half of a register
        return [slot_of(cx, value)]
    if to not in {*_FLOATS, "tf32"} or source not in _FLOATS or _INTEGRAL & set(ins.parts):
        return ["0", "0"]
    slot = resolve(cx, value, 0, source)
    if "sat" in ins.parts or "relu" in ins.parts:
        result = cx.read(ins.operands[0], "f32" if to == "tf32" else to)
        bits = ("i64", _bits(cx, result, 0))
        slot = cx.call(
            "i64", "al_clamped", ("i64", slot), bits, _index("f32" if to == "tf32" else to)
        )
    return [slot]


def _packed(cx: Emit, ins: Instruction, sources: list[Value | None]) -> Lanes:
    """Two f32 become a pair of halves, the first operand the high one; 8-bit pairs have none."""
    if ins.parts[-1] != "f32" or len(sources) < 2 or sources[0] is None or sources[1] is None:
        return ["0", "0"]
    found = []
    result = cx.read(ins.operands[0], ins.parts[-2])
    for lane, value in enumerate((sources[1], sources[0])):
        slot = resolve(cx, value, 0, "f32")
        if "relu" in ins.parts:
            bits = ("i64", _bits(cx, result, lane))
            slot = cx.call("i64", "al_clamped", ("i64", slot), bits, _index(ins.parts[-2]))
        found.append(slot)
    return found


def _logic(cx: Emit, ins: Instruction, sources: list[Value | None]) -> Lanes:
    """Masks that take a half, a magnitude or a sign; `or` puts two halves together."""
    a, b = sources[0], sources[1]
    if a is None or b is None:
        return ["0", "0"]
    known = next((one for one in ins.operands[1:] if isinstance(one, Immediate)), None)
    slots = [slot_of(cx, a, 0), slot_of(cx, a, 1)]
    if known is None:
        if not (ins.base == "or" and a.width == 32):
            return ["0", "0"]
        # The slots of a | b: each half comes from the one that has bits there
        found = []
        for lane, mask in ((0, 0xFFFF), (1, 0xFFFF0000)):
            masks = _without(cx, a, b, mask), _without(cx, b, a, mask)
            from_b = cx.let(f"select i1 {masks[0]}, i64 {slot_of(cx, b, lane)}, i64 0")
            found.append(cx.let(f"select i1 {masks[1]}, i64 {slot_of(cx, a, lane)}, i64 {from_b}"))
        return found
    mask = known.bits & ((1 << a.width) - 1)
    if isinstance(ins.operands[1], Immediate):
        slots = [slot_of(cx, b, 0), slot_of(cx, b, 1)]
    if a.width == 32 and ins.base == "and" and mask in (0xFFFF0000, 0xFFFF):
        return [slots[1], slots[1]] if mask == 0xFFFF0000 else [slots[0], "0"]
    signs = _SIGNS.get(mask if a.width == 32 else mask * 0x10001)
    if signs is None or ins.base == "or":
        return ["0", "0"]
    value = b if isinstance(ins.operands[1], Immediate) else a
    result = cx.read(ins.operands[0], ins.parts[-1])
    for lane in signs[: 1 if a.width == 16 else 2]:
        slots[lane] = _signed(cx, _half(value, len(signs)), _half(result, len(signs)), lane)
    return slots


def _half(value: Value, count: int) -> Value:
    """Return a register of 32 bits as a pair of halves where its lanes are two."""
    type_ = "f16x2" if count == 2 and value.width == 32 else value.type
    return Value(type_, value.bits, value.poison, value.shadow)


def _without(cx: Emit, one: Value, other: Value, mask: int) -> str:
    """Whether `one` is 0, or has no bits below the mask where the other one has some."""
    none = cx.let(f"icmp eq i32 {one.bits}, 0")
    empty = cx.let(f"icmp eq i32 {cx.let(f'and i32 {one.bits}, {mask}')}, 0")
    some = cx.let(f"icmp ne i32 {cx.let(f'and i32 {other.bits}, {mask}')}, 0")
    return cx.let(f"or i1 {none}, {cx.let(f'and i1 {empty}, {some}')}")
