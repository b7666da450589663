"""Calls of what has no body in PTX: vprintf, __assertfail, malloc and free; others are refused."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.control import leave
from ptxsan.emit.registry import emits
from ptxsan.inline import EXTERNAL, TOO_DEEP
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction, Symbol

TOO_DEEP_CODE = 8  # why the launch is inconclusive, in the launch record


@emits("call")
def emit_unknown(cx: Emit, ins: Instruction) -> None:
    """Refuse, and name what is called."""
    name = next((one.name for one in ins.operands if isinstance(one, Symbol)), "a pointer")
    cx.unsupported(f"calls '{name}', which is not in the module (known: {', '.join(EXTERNAL)})")


@emits("call", where=lambda ins: ins.parts[1:] == (TOO_DEEP,))
def emit_too_deep(cx: Emit, ins: Instruction) -> None:
    """End the launch without a verdict: no deeper call was expanded."""
    cx.store_field("%launch", layout.OVERFLOW, str(TOO_DEEP_CODE))
    leave(cx)


@emits("call", where=lambda ins: ins.parts[1:] == ("vprintf",))
def emit_print(cx: Emit, ins: Instruction) -> None:
    """Keep the call; it is put into words when the launch has ended (`machine.printed`)."""
    text, given = (cx.read(one, "u64").bits for one in ins.operands[1:3])
    words = [("i64", one) for one in ("%thread.i", "%launch.i", text, given)]
    result = cx.call("i32", "rt_print", *words, ("i64", str(cx.site)))
    cx.write(ins.operands[0], "s32", result)


@emits("call", where=lambda ins: ins.parts[1:] == ("__assertfail",))
def emit_assert(cx: Emit, ins: Instruction) -> None:
    """Report the assertion and end the launch, as a GPU does."""
    text, file, function = (cx.read(ins.operands[index], "u64").bits for index in (1, 2, 4))
    line = cx.let(f"zext i32 {cx.read(ins.operands[3], 'u32').bits} to i64")
    words = ("%thread.i", "%launch.i", text, file, line, function, str(cx.site))
    cx.call("void", "rt_assert", *[("i64", one) for one in words])
    leave(cx)


@emits("call", where=lambda ins: ins.parts[1:] == ("malloc",))
def emit_malloc(cx: Emit, ins: Instruction) -> None:
    """Give out memory of the device's heap (runtime/heap.py)."""
    size = cx.read(ins.operands[1], "u64")
    found = cx.call("i64", "rt_malloc", ("i64", "%launch.i"), ("i64", size.bits))
    cx.write(ins.operands[0], "u64", found, sources=(size,))


@emits("call", where=lambda ins: ins.parts[1:] == ("free",))
def emit_free(cx: Emit, ins: Instruction) -> None:
    """Take memory of the device's heap back."""
    address = cx.read(ins.operands[1], "u64").bits
    words = ("%thread.i", "%launch.i", address, str(cx.site))
    cx.call("void", "rt_free", *[("i64", one) for one in words])
