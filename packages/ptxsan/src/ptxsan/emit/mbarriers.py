"""mbarrier: init, inval, arrivals of every kind, expected bytes, tests and waits.

PTX ISA 9.7.13.15. Scopes are not told apart: every arrival with release publishes to everybody
who waits with acquire.
"""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.isa import space_of
from ptxsan.runtime import layout
from ptxsan.runtime.mbarriers import (
    ACQUIRE,
    DROP,
    EXPECT,
    FALSE,
    MAY_SUSPEND,
    NO_COMPLETE,
    PARITY,
    RELEASE,
    TRUE,
)
from ptxsan.syntax import Address, Instruction, Operand, Register

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))


def object_address(cx: Emit, operand: Operand, space: str = "shared") -> str:
    """Return the generic i64 address of an mbarrier, or of other shared memory."""
    text, poison = cells.address(cx, operand, space)
    if poison != "false":
        cells.report_if(cx, poison, layout.K_POISON_ADDRESS, text)
    return cells.tagged(cx, text, space)


def wide(cx: Emit, operand: Operand) -> str:
    """Return a 32-bit operand as an unsigned i64; one that nobody wrote decides too much."""
    value = cx.read(operand, "u32")
    if value.poison != "false":
        cells.report_if(cx, value.poison, layout.K_POISON_BRANCH)
    return cx.let(f"zext i32 {value.bits} to i64")


def site_of(cx: Emit) -> tuple[str, str]:
    """Return the instruction's number as an argument."""
    return ("i64", str(cx.site))


@emits("mbarrier")
def emit_mbarrier(cx: Emit, ins: Instruction) -> None:
    """Choose by the operation, the second part of the opcode."""
    operation = ins.parts[1]
    if operation == "init":
        place, count = object_address(cx, ins.operands[0], space_of(ins)), wide(cx, ins.operands[1])
        cx.call("void", "rt_mbarrier_init", *_HERE, ("i64", place), ("i64", count), site_of(cx))
    elif operation == "inval":
        place = object_address(cx, ins.operands[0], space_of(ins))
        cx.call("void", "rt_mbarrier_inval", *_HERE, ("i64", place), site_of(cx))
    elif operation in ("arrive", "arrive_drop"):
        _arrive(cx, ins)
    elif operation in ("expect_tx", "complete_tx"):
        place = object_address(cx, ins.operands[0], space_of(ins))
        complete = ("i64", str(int(operation == "complete_tx")))
        count = wide(cx, ins.operands[1])
        given = ("i64", place), ("i64", count), complete
        cx.call("void", "rt_mbarrier_tx", *_HERE, *given, site_of(cx))
    elif operation == "test_wait":
        # Test without waiting; a thread that asks in vain lets the others run.
        found = _call(cx, ins, 0)
        cx.write(ins.operands[0], "pred", cx.let(f"icmp eq i64 {found}, {TRUE}"))
        vain, done = cx.fresh("vain"), cx.fresh("tested")
        cx.branch(cx.let(f"icmp eq i64 {found}, {FALSE}"), vain, done)
        cx.lines.append(f"{vain}:")
        cx.store_field("%thread", layout.WAIT_SITE, str(cx.site))
        cx.suspend_here(layout.REASON_YIELD)
        cx.label(done)
    elif operation == "try_wait":
        # Wait until the phase is complete; where nobody else can run either, it gives up.
        again, wait, done = cx.fresh("again"), cx.fresh("wait"), cx.fresh("waited")
        cx.label(again)
        found = _call(cx, ins, MAY_SUSPEND)
        cx.branch(cx.let(f"icmp eq i64 {found}, 0"), wait, done)
        cx.lines.append(f"{wait}:")
        cx.suspend(layout.REASON_MBARRIER, cx.liveness.before(cx.site))
        cx.jump(again)
        cx.lines.append(f"{done}:")
        cx.write(ins.operands[0], "pred", cx.let(f"icmp eq i64 {found}, {TRUE}"))
    elif operation == "pending_count":
        state = cx.read(ins.operands[1], "u64")
        cx.write(ins.operands[0], "u32", cx.let(f"trunc i64 {state.bits} to i32"), sources=(state,))
    else:
        cx.unsupported("is an operation on mbarriers that is not modelled")


def _arrive(cx: Emit, ins: Instruction) -> None:
    """Arrive, with a count (1) and expected bytes; the result is the state before."""
    operands = list(ins.operands)
    result = None if isinstance(operands[0], Address) else operands.pop(0)
    expects = "expect_tx" in ins.parts
    flags = 0 if "relaxed" in ins.parts else RELEASE
    flags |= EXPECT if expects else 0
    flags |= DROP if ins.parts[1] == "arrive_drop" else 0
    flags |= NO_COMPLETE if "noComplete" in ins.parts else 0
    place = object_address(cx, operands[0], space_of(ins))
    given = wide(cx, operands[1]) if len(operands) > 1 else "1"
    count, tx = ("1", given) if expects else (given, "0")
    state = cx.call(
        "i64", "rt_mbarrier_arrive", *_HERE, ("i64", place), ("i64", count), ("i64", tx),
        ("i64", str(flags)), site_of(cx),
    )  # fmt: skip
    if isinstance(result, Register) and result.name != "_":
        cx.write(result, "u64", state)


def _call(cx: Emit, ins: Instruction, more: int) -> str:
    place = object_address(cx, ins.operands[1], space_of(ins))
    # Which phase is asked for (a state, or a parity as i64) and the flags.
    flags = 0 if "relaxed" in ins.parts else ACQUIRE
    if "parity" in ins.parts:
        asked, flags = wide(cx, ins.operands[2]), flags | PARITY
    else:
        asked = cx.read(ins.operands[2], "u64").bits
    return cx.call(
        "i64", "rt_mbarrier_test", *_HERE, ("i64", place), ("i64", asked),
        ("i64", str(flags | more)), site_of(cx),
    )  # fmt: skip
