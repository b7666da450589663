"""Barriers of a block (bar, barrier: numbered, counted, reducing) and memory fences."""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.isa import scope_of
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction

_REDUCTIONS = {"popc": layout.OP_POPC, "and": layout.OP_AND, "or": layout.OP_OR}


@emits("bar", "barrier", where=lambda ins: not {"warp", "cluster"} & set(ins.parts))
def emit_barrier(cx: Emit, ins: Instruction) -> None:
    """Wait at (or arrive at) a barrier of the block."""
    reduction = next((part for part in ins.parts if part in _REDUCTIONS), None)
    rest = list(ins.operands[1:] if reduction else ins.operands)
    value = "0"
    if reduction is not None:
        found = cx.read(rest.pop(), "pred")
        value = cx.let(f"zext i1 {found.bits} to i32")
    number = cx.read(rest[0], "u32") if rest else Value("u32", "0")
    count = cx.read(rest[1], "u32") if len(rest) > 1 else Value("u32", "0")
    operation = _REDUCTIONS.get(reduction or "", layout.OP_SYNC)
    if "arrive" in ins.parts:
        operation = layout.OP_ARRIVE
    aligned = ins.base == "bar" or "aligned" in ins.parts
    for field, text in (
        (layout.WAIT_KEY, number.bits),
        (layout.WAIT_COUNT, count.bits),
        (layout.WAIT_VALUE, value),
        (layout.WAIT_SITE, str(cx.site)),
        (layout.WAIT_OP, str(operation | aligned << 8)),
    ):
        cx.store_field("%thread", field, text)
    cx.suspend_here(layout.REASON_BARRIER)
    if reduction is not None:
        bits = cx.load_field("%thread", layout.WAIT_VALUE)
        if ins.parts[-1] == "pred":
            cx.write(ins.operands[0], "pred", cx.let(f"icmp ne i32 {bits}, 0"))
        else:
            cx.write(ins.operands[0], "u32", bits)


@emits("membar", "fence")
def emit_fence(cx: Emit, ins: Instruction) -> None:
    """Order this thread's accesses: later strong writes publish what came before."""
    if any(part == "proxy" or part.startswith("proxy") for part in ins.parts):
        if any(part.startswith("async") for part in ins.parts):
            cx.call("void", "rt_fence_proxy", ("i64", "%thread.i"), ("i64", "%block.i"))
        return
    if "mbarrier_init" in ins.parts:
        cx.call("void", "rt_fence_inits", ("i64", "%thread.i"), ("i64", "%block.i"))
        return
    scope = ("cta", "cluster", "gpu", "sys").index(scope_of(ins))
    cx.call("void", "rt_fence", ("i64", "%thread.i"), ("i64", "%block.i"), ("i64", str(scope)))
