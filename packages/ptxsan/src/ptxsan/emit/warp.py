"""What the lanes of a warp do together: shfl, vote, match, redux, bar.warp.sync.

Each waits for all lanes of its mask. Only bar.warp.sync orders memory accesses.
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction, Pair

SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("all", "any", "uni", "ballot")
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")


@emits("shfl")
def emit_shuffle(cx: Emit, ins: Instruction) -> None:
    """Read a register of another lane."""
    if "sync" not in ins.parts:
        cx.unsupported("without .sync does not exist on sm_70 and newer")
    mode = SHUFFLES.index(ins.parts[2])
    value, lane, clamp = (cx.read(one, "b32") for one in ins.operands[1:4])
    mask = cx.read(ins.operands[4], "b32")
    found, inside = cx.collective(
        "shfl", [value, lane, clamp], ["b32", "pred"], mask=mask.bits, immediate=mode
    )
    destination = ins.operands[0]
    if isinstance(destination, Pair):
        cx.copy(destination.first, found)
        cx.write(destination.second, "pred", inside.bits, poison=inside.poison)
    else:
        cx.copy(destination, found)


@emits("vote")
def emit_vote(cx: Emit, ins: Instruction) -> None:
    """Combine a predicate over the lanes of a mask."""
    mode = next(index for index, one in enumerate(VOTES) if one in ins.parts)
    value = cx.read(ins.operands[1], "pred")
    mask = cx.read(ins.operands[2], "b32") if len(ins.operands) > 2 else Value("b32", "-1")
    (found,) = cx.collective("vote", [value], ["b32"], mask=mask.bits, immediate=mode)
    if mode == VOTES.index("ballot"):
        cx.write(ins.operands[0], "b32", found.bits, poison=found.poison)
    else:
        bits = cx.let(f"icmp ne i32 {found.bits}, 0")
        cx.write(ins.operands[0], "pred", bits, poison=found.poison)


@emits("match")
def emit_match(cx: Emit, ins: Instruction) -> None:
    """Find the lanes that hold the same value."""
    type_ = ins.parts[-1]
    value, mask = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], "b32")
    found, same = cx.collective(
        "match", [value], ["b32", "pred"], mask=mask.bits, immediate=int("all" in ins.parts)
    )
    destination = ins.operands[0]
    if isinstance(destination, Pair):
        cx.write(destination.first, "b32", found.bits, poison=found.poison)
        cx.write(destination.second, "pred", same.bits, poison=same.poison)
    else:
        cx.write(destination, "b32", found.bits, poison=found.poison)


@emits("redux", types=("u32", "s32", "b32"))
def emit_reduce(cx: Emit, ins: Instruction) -> None:
    """Reduce integers over the lanes of a mask."""
    mode = next(index for index, one in enumerate(REDUCTIONS) if one in ins.parts)
    value, mask = cx.read(ins.operands[1], "b32"), cx.read(ins.operands[2], "b32")
    immediate = mode | (ins.parts[-1] == "s32") << 4
    (found,) = cx.collective("redux", [value], ["b32"], mask=mask.bits, immediate=immediate)
    cx.write(ins.operands[0], "b32", found.bits, poison=found.poison)


@emits("redux", types=("f32",))
def emit_extreme(cx: Emit, ins: Instruction) -> None:
    """The smallest or largest f32 of the lanes of a mask, as integers in the order of floats.

    A NaN loses, and wins with .NaN.
    """
    mode = next((index for index, one in enumerate(REDUCTIONS) if one in ins.parts), 0)
    if REDUCTIONS[mode] not in ("min", "max"):
        cx.unsupported("is a reduction that no architecture has")
    value, mask = cx.read(ins.operands[1], "f32"), cx.read(ins.operands[2], "b32")
    bits = value.bits
    if "abs" in ins.parts:
        bits = cx.let(f"and i32 {bits}, {0x7FFFFFFF}")
    single = cx.let(f"bitcast i32 {bits} to float")
    nan = cx.let(f"fcmp uno float {single}, {single}")
    low, high = -(1 << 31), (1 << 31) - 1
    worst = low if (REDUCTIONS[mode] == "max") != ("NaN" in ins.parts) else high
    key = cx.let(f"select i1 {nan}, i32 {worst}, i32 {_ordered(cx, bits)}")
    given = Value("b32", key, value.poison)
    (found,) = cx.collective("redux", [given], ["b32"], mask=mask.bits, immediate=mode | 16)
    lowest = cx.let(f"icmp eq i32 {found.bits}, {low}")
    back = cx.let(f"select i1 {lowest}, i32 {high}, i32 {_ordered(cx, found.bits)}")
    cx.write(ins.operands[0], "f32", back, poison=found.poison)


def _ordered(cx: Emit, bits: str) -> str:
    """Return the bits of an f32 as an integer in the same order, or back."""
    sign = cx.let(f"ashr i32 {bits}, 31")
    return cx.let(f"xor i32 {bits}, {cx.let(f'and i32 {sign}, {0x7FFFFFFF}')}")


@emits("elect")
def emit_elect(cx: Emit, ins: Instruction) -> None:
    """Choose one lane of a mask: the lowest."""
    mask = cx.read(ins.operands[1], "b32")
    leader, chosen = cx.collective("elect", [], ["b32", "pred"], mask=mask.bits)
    destination = ins.operands[0]
    if isinstance(destination, Pair):
        cx.write(destination.first, "b32", leader.bits, poison="false")
        cx.write(destination.second, "pred", chosen.bits, poison="false")
    else:
        cx.write(destination, "b32", leader.bits, poison="false")


@emits("activemask")
def emit_active(cx: Emit, ins: Instruction) -> None:
    """The lanes that are at this instruction once no other lane of the warp gets any further.

    PTX promises no more of a set than that its lanes execute the instruction together.
    """
    (found,) = cx.collective("active", [], ["b32"], reason=layout.REASON_MEETING)
    cx.write(ins.operands[0], "b32", found.bits)


@emits("bar", where=lambda ins: "warp" in ins.parts)
def emit_warp_barrier(cx: Emit, ins: Instruction) -> None:
    """Wait for the lanes of a mask; what they did before is known to all of them afterwards."""
    mask = cx.read(ins.operands[0], "b32")
    cx.collective("warp_sync", [], [], mask=mask.bits)


@emits("nanosleep")
def emit_sleep(cx: Emit, ins: Instruction) -> None:
    """Let the others run."""
    cx.store_field("%thread", layout.WAIT_SITE, str(cx.site))
    cx.suspend_here(layout.REASON_YIELD)
