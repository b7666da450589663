"""mov: copies, addresses of symbols, packing and unpacking of vectors."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import ZERO, Value, width_of
from ptxsan.syntax import Instruction, Vector


@emits("mov")
def emit_move(cx: Emit, ins: Instruction) -> None:
    """Copy a value, pack several into one, or take one apart."""
    type_ = ins.parts[-1]
    to, source = ins.operands
    if isinstance(source, Vector) and isinstance(to, Vector):
        for one, other in zip(to.items, source.items, strict=True):
            cx.copy(one, cx.read(other, type_))
    elif isinstance(source, Vector):
        width = width_of(type_)
        part = width // len(source.items)
        items = [cx.read(one, f"b{part}") for one in source.items]
        bits = _joined(cx, [one.bits for one in items], part, width)
        undefined = ""
        if any(one.poison != "false" for one in items):
            undefined = _joined(cx, [cx.undefined(one) for one in items], part, width)
        shadow = tuple(one.lane(0) for one in items) if part >= 16 and len(items) == 2 else ()
        if part == 16 and len(items) == 2 and items[0].bits == "0":
            shadow = (shadow[1], shadow[1])  # {0, h} is a bf16 made an f32: one lane; or a pair
        cx.write(
            ins.operands[0], type_, bits, sources=tuple(items), shadow=shadow, undefined=undefined
        )
    elif isinstance(to, Vector):
        value = cx.read(ins.operands[1], type_)
        part = value.width // len(to.items)
        for index, item in enumerate(to.items):
            narrow = piece(cx, value.bits, value.width, index * part, part)
            lane = value.lane(index) if part >= 16 and len(to.items) == 2 else ZERO
            poison, undefined = value.poison, ""
            if value.undefined:
                undefined = piece(cx, value.undefined, value.width, index * part, part)
                poison = cx.let(f"icmp ne i{part} {undefined}, 0")
            cx.copy(item, Value(f"b{part}", narrow, poison, (lane,), undefined))
    else:
        cx.copy(to, cx.read(source, type_))


def _joined(cx: Emit, texts: list[str], part: int, width: int) -> str:
    """Return pieces of `part` bits, the lowest first, as one word."""
    word = "0"
    for index, text in enumerate(texts):
        wide = cx.let(f"zext i{part} {text} to i{width}")
        if index:
            wide = cx.let(f"shl i{width} {wide}, {index * part}")
        word = cx.let(f"or i{width} {word}, {wide}")
    return word


def piece(cx: Emit, text: str, width: int, start: int, part: int) -> str:
    """Return `part` bits of a word of `width` bits from bit `start` on."""
    if start:
        text = cx.let(f"lshr i{width} {text}, {start}")
    return cx.let(f"trunc i{width} {text} to i{part}")
