"""clusterlaunchcontrol: ask for the place of a cluster that has not begun, read the response."""

from __future__ import annotations

from ptxsan import isa
from ptxsan.emit.context import Emit
from ptxsan.emit.matrix import items_of
from ptxsan.emit.mbarriers import object_address, site_of
from ptxsan.emit.registry import emits
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))
_WORDS = {"get_first_ctaid::x": 0, "get_first_ctaid::y": 1, "get_first_ctaid::z": 2}


@emits("clusterlaunchcontrol", where=isa.takes_blocks)
def emit_take(cx: Emit, ins: Instruction) -> None:
    """Ask for a cluster; the response lands at an mbarrier."""
    space = "shared" if "shared::cta" in ins.parts else "generic"
    where, barrier = (object_address(cx, one, space) for one in ins.operands)
    several = "multicast::cluster::all" in ins.parts
    given = (("i64", where), ("i64", barrier), ("i64", str(int(several))))
    cx.call("void", "rt_take_cluster", *_HERE, *given, site_of(cx))


@emits("clusterlaunchcontrol", where=lambda ins: "query_cancel" in ins.parts)
def emit_query(cx: Emit, ins: Instruction) -> None:
    """Read a response: whether there was a cluster, or its first block.

    Which block it is where there was none is undefined: as what nobody wrote. NVIDIA's own code
    reads it before it asks.
    """
    response = cx.read(ins.operands[1], "b128")
    words = [
        cx.let(f"trunc i128 {cx.let(f'lshr i128 {response.bits}, {32 * index}')} to i32")
        for index in range(4)
    ]
    found = cx.let(f"icmp ne i32 {words[3]}, 0")
    if "is_canceled" in ins.parts:
        none = cx.let(f"zext i1 {cx.let(f'xor i1 {found}, true')} to i32")
        before = cx.load_field("%block", layout.NONE_LEFT)
        cx.store_field("%block", layout.NONE_LEFT, cx.let(f"or i32 {before}, {none}"))
        cx.write(ins.operands[0], "pred", found, sources=(response,))
        return
    none = cx.let(f"xor i1 {found}, true")
    poison = none if response.poison == "false" else cx.let(f"or i1 {none}, {response.poison}")
    one = next((_WORDS[part] for part in ins.parts if part in _WORDS), None)
    if one is not None:
        cx.write(ins.operands[0], "b32", words[one], poison=poison)
        return
    for to, word in zip(items_of(ins.operands[0]), (*words[:3], "0"), strict=True):
        cx.write(to, "b32", word, poison=poison)
