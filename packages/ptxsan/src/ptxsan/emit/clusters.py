"""Clusters: the barrier of the cluster, addresses in other blocks' shared memory, hints.

PTX ISA 9.7.13.4 (barrier.cluster), 9.7.9.23 (mapa), 9.7.9.24 (getctarank), 9.7.19 (setmaxnreg).
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.mbarriers import site_of
from ptxsan.emit.registry import emits
from ptxsan.emit.values import width_of
from ptxsan.runtime import layout
from ptxsan.syntax import Address, Instruction, Symbol

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))
_LOW = layout.RANK_UNIT - 1


@emits("barrier", where=lambda ins: "cluster" in ins.parts)
def emit_cluster_barrier(cx: Emit, ins: Instruction) -> None:
    """Arrive at the barrier of the cluster, or wait until all of its threads have."""
    if "arrive" in ins.parts:
        release = ("i64", str(int("relaxed" not in ins.parts)))
        cx.call("void", "rt_cluster_arrive", *_HERE, release, site_of(cx))
        return
    again, wait, done = cx.fresh("again"), cx.fresh("wait"), cx.fresh("waited")
    cx.label(again)
    found = cx.call("i64", "rt_cluster_wait", *_HERE, site_of(cx))
    cx.branch(cx.let(f"icmp eq i64 {found}, 0"), wait, done)
    cx.lines.append(f"{wait}:")
    cx.suspend(layout.REASON_CLUSTER, cx.liveness.before(cx.site))
    cx.jump(again)
    cx.lines.append(f"{done}:")


@emits("mapa")
def emit_map(cx: Emit, ins: Instruction) -> None:
    """The address of the same variable in another block of the cluster."""
    type_, source = ins.parts[-1], ins.operands[1]
    width = width_of(type_)
    if isinstance(source, Symbol | Address):
        name = source if isinstance(source, Symbol) else source.base
        if not isinstance(name, Symbol):
            cx.unsupported("has an address of a kind that is not read")
        bits, poison = str(cx.symbol(name.name) + name.offset), "false"
    else:
        value = cx.read(source, type_)
        bits, poison = value.bits, value.poison
    rank = cx.read(ins.operands[2], "u32")
    place = cx.let(f"shl i32 {cx.let(f'add i32 {rank.bits}, 1')}, 27")
    if width == 64:
        place = cx.let(f"zext i32 {place} to i64")
    kept = cx.let(f"and i{width} {bits}, {~(31 << 27)}")
    poison = cx.either(poison, rank.poison)
    cx.write(ins.operands[0], type_, cx.let(f"or i{width} {kept}, {place}"), poison=poison)


@emits("getctarank")
def emit_rank(cx: Emit, ins: Instruction) -> None:
    """The rank in its cluster of the block whose shared memory an address means."""
    value = cx.read(ins.operands[1], "u64")
    low = cx.let(f"trunc i64 {value.bits} to i32")
    rank = cx.let(f"lshr i32 {low}, 27")
    own = cx.load_field("%block", layout.CLUSTER_RANK)
    other = cx.let(f"sub i32 {rank}, 1")
    none = cx.let(f"icmp eq i32 {rank}, 0")
    found = cx.let(f"select i1 {none}, i32 {own}, i32 {other}")
    cx.write(ins.operands[0], "u32", found, sources=(value,))


@emits("setmaxnreg", "griddepcontrol")
def emit_nothing(cx: Emit, ins: Instruction) -> None:
    """Registers are not counted; a launch begins when the one before has ended."""


@emits("createpolicy")
def emit_policy(cx: Emit, ins: Instruction) -> None:
    """A cache policy is a number that nothing depends on."""
    cx.write(ins.operands[0], "b64", "0")
