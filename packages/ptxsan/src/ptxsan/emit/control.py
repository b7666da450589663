"""Jumps and ends: bra, ret, exit, trap. Divergence needs nothing: each thread has its own."""

from __future__ import annotations

from ptxsan.dataflow import target_of
from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction


def block_label(index: int) -> str:
    """Return the IR label of the program's instruction `index`."""
    return f"at.{index}"


def predicate(cx: Emit, ins: Instruction) -> str | None:
    """Return the i1 under which an instruction is executed; None where it always is."""
    if ins.predicate is None:
        return None
    value = cx.read(ins.predicate, "pred")
    if value.poison != "false":
        cells.report_if(cx, value.poison, layout.K_POISON_BRANCH)
    return value.bits


@emits("bra")
def emit_branch(cx: Emit, ins: Instruction) -> None:
    """Jump; backwards it costs fuel, so that no thread keeps the others from running."""
    target = target_of(ins, cx.program.labels)
    condition = predicate(cx, ins)
    fall = block_label(cx.site + 1)
    if target > cx.site:
        if condition is None:
            cx.jump(block_label(target))
        else:
            cx.branch(condition, block_label(target), fall)
        return
    back = cx.fresh("back")
    if condition is not None:
        cx.branch(condition, back, fall)
        cx.lines.append(f"{back}:")
    left = cx.let(f"sub i32 {cx.let('load i32, ptr %fuel')}, 1")
    cx.line(f"store i32 {left}, ptr %fuel")
    tired = cx.fresh("tired")
    cx.branch(cx.let(f"icmp sgt i32 {left}, 0"), block_label(target), tired)
    cx.lines.append(f"{tired}:")
    cx.store_field("%thread", layout.WAIT_SITE, str(cx.site))
    cx.suspend(layout.REASON_YIELD, cx.liveness.before(target))
    cx.jump(block_label(target))


@emits("ret", "exit")
def emit_return(cx: Emit, ins: Instruction) -> None:
    """End of the thread."""
    cx.jump("done")


@emits("trap", "brkpt")
def emit_trap(cx: Emit, ins: Instruction) -> None:
    """Stop the launch with a finding."""
    stop(cx, layout.K_TRAP)


def stop(cx: Emit, kind: int) -> None:
    """Report a finding and end the launch."""
    cells.call_report(cx, kind)
    leave(cx)


def leave(cx: Emit) -> None:
    """End the launch."""
    cx.store_field("%thread", layout.COUNT, cx.let("load i64, ptr %count"), "i64")
    cx.line(f"ret i64 {layout.REASON_TRAP}")
    cx.lines.append(f"{cx.fresh('after')}:")
