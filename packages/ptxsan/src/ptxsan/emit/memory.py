"""ld, st and their kin, address conversions. Cache operators change nothing here."""

from __future__ import annotations

from ptxsan.emit import cells
from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.stored import note_stored
from ptxsan.emit.values import width_of
from ptxsan.isa import Memory, is_atomic, is_strong, row, scope_of, space_of
from ptxsan.program import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ptxsan.runtime import layout
from ptxsan.syntax import Address, Instruction, Operand, Symbol, Vector


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@emits("ld", "ldu")
def emit_load(cx: Emit, ins: Instruction) -> None:
    """Read one element or a vector of them."""
    type_, space = ins.parts[-1], space_of(ins)
    items = _items(ins.operands[0])
    size = width_of(type_) // 8
    if (
        space == "param"
        and isinstance(ins.operands[1], Address)
        and isinstance(ins.operands[1].base, Symbol)
    ):
        _load_parameter(cx, ins, items, type_)
        return
    strong = is_strong(ins)
    # Whether a load only guesses what a compare-and-swap of the same address will find. The loop of
    # the CUDA C++ Programming Guide reads its first guess plainly; a stale one costs a turn, not
    # the result.
    kind = "strong_read" if strong or ins.operands[1] in cx.swapped else "read"
    cell = cells.access(cx, ins.operands[1], space, size * len(items), kind, scope=scope_of(ins))
    values = [cells.load(cx, cell, index * size, type_) for index in range(len(items))]
    if strong:
        synchronise(cx, ins, acquire=True, release=False)
    for item, value in zip(items, values, strict=True):
        cx.copy(item, value)


def _load_parameter(cx: Emit, ins: Instruction, items: tuple[Operand, ...], type_: str) -> None:
    address = ins.operands[1]
    assert isinstance(address, Address)
    assert isinstance(address.base, Symbol)
    size = width_of(type_) // 8
    start = cx.symbol(address.base.name) + address.offset
    if not 0 <= start <= cx.program.param_bytes - size * len(items):
        cx.unsupported("reads outside of the kernel's parameters")
    table = cx.load_field("%launch", layout.PARAMS, "ptr")
    for index, item in enumerate(items):
        pointer = cx.let(f"getelementptr i8, ptr {table}, i64 {start + index * size}")
        bits = cx.let(f"load i{8 * size}, ptr {pointer}, align 1, !invariant.load !0")
        cx.write(item, type_, bits)


@emits("st")
def emit_store(cx: Emit, ins: Instruction) -> None:
    """Write one element or a vector of them."""
    if {"async", "bulk"} & set(ins.parts):
        cx.unsupported("is an asynchronous store, which is not modelled")
    type_, space = ins.parts[-1], space_of(ins)
    items = _items(ins.operands[1])
    size = width_of(type_) // 8
    strong = is_strong(ins)
    if strong:
        synchronise(cx, ins, acquire=False, release=True)
    values = [cx.read(item, type_) for item in items]
    kind = "strong_write" if strong else "write"
    cell = cells.access(cx, ins.operands[0], space, size * len(items), kind, scope=scope_of(ins))
    for index, value in enumerate(values):
        cells.store(cx, cell, index * size, value)
    if space in ("global", "generic"):
        note_stored(cx, items, values)


def synchronise(cx: Emit, ins: Instruction, *, acquire: bool, release: bool) -> None:
    """Tell the race detector that a strong access releases or acquires at its address.

    A relaxed access publishes what a fence before it covered, and what a relaxed read sees
    counts as acquired once a fence follows. Where nothing acquires, nobody would hear of a
    release.
    """
    release = release and cx.updates.heard
    if not cx.options.races or not (acquire or release):
        return
    address = next(one for one in ins.operands if isinstance(one, Address))
    space = space_of(ins)
    text, _ = cells.address(cx, address, space)
    text = cells.tagged(cx, text, space)
    full = any(part in ("release", "acq_rel") for part in ins.parts)
    acquires = any(part in ("acquire", "acq_rel") for part in ins.parts)
    flags = acquire | release << 1 | full << 2 | (row(ins).memory is Memory.WRITE) << 3
    flags |= acquires << 4 | is_atomic(ins) << 5
    scope = ("cta", "cluster", "gpu", "sys").index(scope_of(ins))
    cx.call(
        "void",
        "rt_synchronise",
        *[("i64", one) for one in ("%thread.i", "%block.i", "%launch.i", text)],
        ("i64", str(flags | scope << 8)),
    )


@emits("prefetch", "prefetchu", "applypriority", "discard")
def emit_hint(cx: Emit, ins: Instruction) -> None:
    """Hints about caches change no value."""


@emits("cvta")
def emit_convert_address(cx: Emit, ins: Instruction) -> None:
    """Between a space's own addresses and generic ones, which carry the space in their top bits."""
    space, type_ = space_of(ins), ins.parts[-1]
    source = ins.operands[1]
    if isinstance(source, Address):
        text, poison = cells.address(cx, source, space)
    else:
        value = cx.read(source, "u64")
        text, poison = value.bits, value.poison
    if "to" in ins.parts:
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space)
        if window is not None:
            text = cx.let(f"and i64 {text}, {(1 << 56) - 1}")
    else:
        text = cells.tagged(cx, text, space)
    if type_ == "u32":
        text = cx.let(f"trunc i64 {text} to i32")
    cx.write(ins.operands[0], type_, text, poison=poison)


@emits("isspacep")
def emit_is_space(cx: Emit, ins: Instruction) -> None:
    """Whether a generic address lies in a space."""
    number = {"global": 0, "const": 0, "shared": 1, "local": 2, "param": 3}[space_of(ins)]
    value = cx.read(ins.operands[1], "u64")
    top = cx.let(f"lshr i64 {value.bits}, 56")
    cx.write(ins.operands[0], "pred", cx.let(f"icmp eq i64 {top}, {number}"), sources=(value,))
