"""cvt to and from packed floats of 4, 6 and 8 bits, to and from scales (ue8m0), and from s2f6.

PTX ISA, "cvt". Elements lie in slots of 4 or 8 bits, what comes from the first operand in the
uppermost one. s2f6 is a signed byte in units of 2^-6. Shadows of small floats are counted, not
kept.
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.conversions import encoded
from ptxsan.emit.floating import delta, exact_of, flags_of, format_of, mode_of
from ptxsan.emit.halves import exact_half, halves, write_halves
from ptxsan.emit.matrix import items_of
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value, width_of
from ptxsan.isa import SMALL_FLOATS
from ptxsan.numerics.formats import Rounding
from ptxsan.syntax import Instruction

_PAIRS = ("f16x2", "bf16x2")
_SCALE, _FIXED = "ue8m0", "s2f6"


@emits("cvt", where=lambda ins: ins.parts[-2] in SMALL_FLOATS)
def emit_to_small(cx: Emit, ins: Instruction) -> None:
    """Two f32, or a pair of halves, become two small floats."""
    to, source = ins.parts[-2:]
    name = to.partition("x")[0]
    if name == _FIXED:
        cx.unsupported("has a result that is not covered")
    if "rs" in ins.parts:  # the manual shows in pictures which random bits each element takes
        cx.unsupported("is not covered (.rs)")
    if source == "f32":
        given = ins.operands[1:] if len(ins.operands) > 2 else items_of(ins.operands[1])
        values = [cx.read(one, "f32") for one in reversed(given)]
        doubles = [exact_of(cx, one) for one in values]
    elif source in _PAIRS:
        values = halves(cx, ins.operands[1], source)
        doubles = [exact_half(cx, one) for one in values]
    else:
        cx.unsupported("has a source that is not covered")
    width = width_of(to)
    slot = width // len(values)
    bits, marks = "0", []
    for index, (value, (exact, here)) in enumerate(zip(values, doubles, strict=True)):
        code = _code(cx, here, name, ins)
        if cx.shadow_on and name != _SCALE:  # a scale is a power of two that stands for others
            delta(cx, _value(cx, code, name), exact, here)
        narrow = cx.let(f"trunc i32 {code} to i{width}") if width < 32 else code
        bits = cx.let(f"or i{width} {bits}, {cx.let(f'shl i{width} {narrow}, {slot * index}')}")
        if value.poison != "false" and slot == 8:
            byte = 1 << slot * index
            marks.append(cx.let(f"select i1 {value.poison}, i{width} {byte}, i{width} 0"))
    undefined = ""
    for mark in marks:
        undefined = cx.let(f"or i{width} {undefined}, {mark}") if undefined else mark
    cx.write(ins.operands[0], f"b{width}", bits, sources=tuple(values), undefined=undefined)


def _code(cx: Emit, text: str, name: str, ins: Instruction) -> str:
    """Return the code of a double as an i32."""
    if name == _SCALE:
        mode, flags = ("i32", str(int(mode_of(ins)))), ("i32", str(flags_of(ins)))
        return cx.call("i32", "f_encode_scale", ("double", text), mode, flags)
    code = encoded(cx, text, name, Rounding.RN, flags_of(ins))
    return cx.let(f"zext i{format_of(name).bits} {code} to i32")


def _value(cx: Emit, code: str, name: str) -> str:
    """Return the value of a code, an i32, as a double."""
    if name == _SCALE:
        return cx.call("double", "f_decode_scale", ("i32", code))
    if name == _FIXED:
        whole = cx.let(f"sitofp i8 {cx.let(f'trunc i32 {code} to i8')} to double")
        return cx.let(f"fmul double {whole}, {2.0**-6!r}")
    return cx.call("double", "f_decode", ("i32", code), ("i32", str(format_of(name).index)))


@emits("cvt", where=lambda ins: ins.parts[-1] in SMALL_FLOATS)
def emit_from_small(cx: Emit, ins: Instruction) -> None:
    """Two small floats become a pair of halves; each may have a scale of its own."""
    to, source = ins.parts[-2:]
    name, _, count = source.partition("x")
    if to not in _PAIRS or count != "2":
        cx.unsupported("has a result that is not covered")
    width = width_of(source)
    value = cx.read(ins.operands[1], f"b{width}")
    slot, bits = width // 2, 4 if width == 8 else 8
    if name not in (_SCALE, _FIXED):
        bits = format_of(name).bits
    results, sources = [], [value, value]
    if value.undefined and slot == 8:
        parts = [cx.let(f"and i{width} {value.undefined}, {1 << place}") for place in (0, slot)]
        sources = [Value("b8", "0", cx.let(f"icmp ne i{width} {part}, 0")) for part in parts]
    scales = cx.read(ins.operands[2], "b16") if len(ins.operands) > 2 else None
    if scales is not None:
        sources += [scales, scales]
    for place in (0, slot):
        wide = cx.let(f"zext i{width} {value.bits} to i32")
        moved = cx.let(f"lshr i32 {wide}, {place}")
        text = _value(cx, cx.let(f"and i32 {moved}, {(1 << bits) - 1}"), name)
        if scales is not None:
            code = cx.let(f"lshr i32 {cx.let(f'zext i16 {scales.bits} to i32')}, {8 * (place > 0)}")
            scale = _value(cx, cx.let(f"and i32 {code}, 255"), _SCALE)
            text = cx.let(f"fmul double {text}, {scale}")
        half = to.removesuffix("x2")
        results.append(Value(half, encoded(cx, text, half, Rounding.RN, flags_of(ins))))
    write_halves(cx, ins.operands[0], to, results, sources)
