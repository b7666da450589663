"""What a store to global memory puts there: its floats enter the store's own statistics.

A register of bits is a float if the instructions that define it say so (`origins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ptxsan import origins
from ptxsan.emit.floating import as_double, delta, exactly
from ptxsan.emit.values import Value
from ptxsan.syntax import Operand

if TYPE_CHECKING:
    from ptxsan.emit.context import Emit


def note_stored(cx: Emit, items: Sequence[Operand], values: Sequence[Value]) -> None:
    """Add the floats among stored values to the statistics of the instruction in work."""
    if not cx.shadow_on or cx.algebra:
        return
    known = origins.of(cx.program)
    for item, value in zip(items, values, strict=True):
        type_ = known.of_operand(item)
        if type_ == "f32" and value.width == 32:
            _note(cx, value.bits, "f32", value.lane(0))
        elif type_ in ("f16", "bf16") and value.width == 16:
            _note(cx, value.bits, type_, value.lane(0))
        elif type_ in ("f16x2", "bf16x2") and value.width == 32:
            for lane in (0, 1):
                moved = cx.let(f"lshr i32 {value.bits}, {16 * lane}")
                low = cx.let(f"trunc i32 {moved} to i16")
                _note(cx, low, type_.removesuffix("x2"), value.lane(lane))


def _note(cx: Emit, bits: str, type_: str, shadow: str) -> None:
    actual = as_double(cx, bits, type_)
    delta(cx, actual, exactly(cx, actual, shadow), actual)
