"""Memory while it is compiled: a checked access, and loads and stores with init and shadow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxsan.emit.values import ZERO, Value, ones_of, width_of
from ptxsan.program import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ptxsan.runtime import layout
from ptxsan.syntax import Address, Immediate, Operand, Register, Symbol

if TYPE_CHECKING:
    from ptxsan.emit.context import Emit

_BEFORE = 1 << 30  # bytes before shared memory whose addresses count as negative
_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
_KINDS = {
    "read": layout.READ,
    "write": layout.WRITE,
    "atomic": layout.ATOMIC,
    "strong_read": layout.STRONG_READ,
    "strong_write": layout.STRONG_WRITE,
}
_SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A checked piece of memory: LLVM pointers to bytes, init flags and shadows; its address."""

    data: str
    init: str
    shadow: str
    raced: str
    space: str
    kind: str
    address: str = ""  # as it was given, where it was


def address(cx: Emit, operand: Operand, space: str) -> tuple[str, str]:
    """Return (i64 address in its own space, i1 poison) of an address operand."""
    if not isinstance(operand, Address):
        cx.unsupported(f"has no address where one is expected: {operand}")
    match operand.base:
        case Symbol(name=name):
            return str(cx.symbol(name) + operand.offset), "false"
        case Immediate(bits=bits):
            return str(bits + operand.offset), "false"
        case Register():
            value = cx.read(operand.base, "u64")
            found = value.bits
            if operand.offset:
                found = cx.let(f"add i64 {found}, {operand.offset}")
            if space == "shared":
                # Shared addresses have 32 bits, and wider ones are truncated (PTX ISA, ld):
                # `p[~i]` with an unsigned i lies before p. What lies before all of it is negative,
                # by up to 2^30: the window of the 16th block of a cluster begins at 2^31.
                low = cx.let(f"trunc i64 {found} to i32")
                moved = cx.let(f"add i32 {low}, {_BEFORE}")
                found = cx.let(f"sub i64 {cx.let(f'zext i32 {moved} to i64')}, {_BEFORE}")
            return found, value.poison


def tagged(cx: Emit, text: str, space: str) -> str:
    """Return the generic address of an address in a space's own window."""
    window = _WINDOWS.get(space, 0)
    return text if window == 0 else cx.let(f"or i64 {text}, {window}")


def access(
    cx: Emit, operand: Operand, space: str, nbytes: int, kind: str, *, scope: str = "gpu"
) -> Cell:
    """Check an access by an address operand and return its cell."""
    text, poison = address(cx, operand, space)
    if poison != "false":
        report_if(cx, poison, layout.K_POISON_ADDRESS, text)
    return access_at(cx, text, space, nbytes, kind, scope=scope)


def access_at(
    cx: Emit, text: str, space: str, nbytes: int, kind: str, *, scope: str = "gpu"
) -> Cell:
    """Check an access at an i64 address of a space ("generic": tagged) and return its cell."""
    name = {"const": "global", "param": "generic"}.get(space, space)
    if space == "param":
        text = tagged(cx, text, space)
    info = nbytes | _KINDS[kind] << 16 | _SCOPES[scope] << 20 | cx.site << 24
    arguments = [("i64", one) for one in ("%thread.i", "%block.i", "%launch.i", text)]
    raced = cx.call("i64", f"rt_access_{name}", *arguments, ("i64", str(info)), ("i64", "%out.i"))
    data = cx.let("load ptr, ptr %out")
    init = cx.let(f"load ptr, ptr {cx.let('getelementptr i8, ptr %out, i64 8')}")
    shadow = cx.let(f"load ptr, ptr {cx.let('getelementptr i8, ptr %out, i64 16')}")
    return Cell(
        data=data, init=init, shadow=shadow, raced=raced, space=space, kind=kind, address=text
    )


def load(cx: Emit, cell: Cell, offset: int, type_: str) -> Value:
    """Return what is `offset` bytes into a cell."""
    width = width_of(type_)
    bits = cx.let(f"load i{width}, ptr {_at(cx, cell.data, offset)}, align 1")
    flags = cx.let(f"load i{width}, ptr {_at(cx, cell.init, offset)}, align 1")
    flags = cx.let(f"and i{width} {flags}, {ones_of(width)}")
    poison = cx.let(f"icmp ne i{width} {flags}, {ones_of(width)}")
    undefined = ""
    if cx.facts.split and width in (32, 64):
        undefined = cx.let(f"xor i{width} {flags}, {ones_of(width)}")
    shadow: tuple[str, ...] = ()
    if cx.shadow_on:
        cells = ((0,) if type_ == "f32" else (0, 1), (0, 2))[width == 64]
        shadows = []
        for index in cells[: cx.lanes(type_)]:
            pointer = _at(cx, cell.shadow, 2 * offset + 4 * index)
            if cx.algebra:
                number = cx.let(f"load i32, ptr {pointer}, align 4")
                slot = cx.call("i64", "al_load", ("i64", "%launch.i"), ("i32", number))
                shadows.append(cx.let(f"bitcast i64 {slot} to double"))
            else:
                shadows.append(
                    cx.let(f"fpext float {cx.let(f'load float, ptr {pointer}, align 4')} to double")
                )
        shadow = tuple(shadows)
    return Value(type_, bits, poison, shadow, undefined)


def store(cx: Emit, cell: Cell, offset: int, value: Value) -> None:
    """Write a value `offset` bytes into a cell, with its init flags and shadows."""
    width = value.width
    data = _at(cx, cell.data, offset)
    if cell.space in ("global", "generic") and value.poison != "false":
        poison = value.poison
        if cell.space == "generic" and cell.address:
            # a thread's own copy of a structure holds padding
            top = cx.let(f"lshr i64 {cell.address}, 56")
            own = cx.let(f"icmp eq i64 {top}, {LOCAL_WINDOW >> 56}")
            poison = cx.let(f"select i1 {own}, i1 false, i1 {poison}")
        report_if(cx, poison, layout.K_POISON_STORE, cx.let(f"ptrtoint ptr {data} to i64"))
    if cx.options.races and cell.kind in ("write", "strong_write") and width <= 64:
        # Tell the runtime, where a race was seen, whether the value is the one that is there.
        raced, done = cx.fresh("raced"), cx.fresh("store")
        cx.branch(cx.let(f"icmp ne i64 {cell.raced}, 0"), raced, done)
        cx.label(raced)
        there = cx.let(f"load i{value.width}, ptr {data}, align 1")
        same = cx.let(f"icmp eq i{value.width} {value.bits}, {there}")
        flag = cx.let(f"zext i1 {same} to i64")
        cx.call("void", "rt_same_value", ("i64", "%launch.i"), ("i64", cell.raced), ("i64", flag))
        cx.jump(done)
        cx.lines.append(f"{done}:")
    cx.line(f"store i{width} {value.bits}, ptr {data}, align 1")
    flags = str(ones_of(width))
    if value.undefined:
        flags = cx.let(f"xor i{width} {value.undefined}, {flags}")
    elif value.poison != "false":
        flags = cx.let(f"select i1 {value.poison}, i{width} 0, i{width} {flags}")
    place = _at(cx, cell.init, offset)
    if cell.kind == "strong_write":
        # Mark bytes that held nothing before this strong write, for strong reads that come early.
        twos = 2 * ones_of(width)
        old = cx.let(f"load i{width}, ptr {place}, align 1")
        fresh = cx.let(f"icmp eq i{width} {old}, 0")
        kept = cx.let(f"and i{width} {old}, {twos}")
        mark = cx.let(f"select i1 {fresh}, i{width} {twos}, i{width} {kept}")
        flags = cx.let(f"or i{width} {flags}, {mark}")
    cx.line(f"store i{width} {flags}, ptr {place}, align 1")
    if cx.shadow_on:
        count = max(1, value.width // 16)
        step = 2 if value.width == 64 else 1
        if cx.algebra:
            _store_residues(cx, cell, offset, value)
        elif not any(lane != ZERO for lane in value.shadow):
            pointer = _at(cx, cell.shadow, 2 * offset)
            cx.line(f"store i{32 * count} 0, ptr {pointer}, align 4")
        else:
            for index in range(count):
                lane = value.lane(index // step) if index % step == 0 else ZERO
                text = ZERO if lane == ZERO else cx.let(f"fptrunc double {lane} to float")
                pointer = _at(cx, cell.shadow, 2 * offset + 4 * index)
                cx.line(f"store float {text}, ptr {pointer}, align 4")


def _store_residues(cx: Emit, cell: Cell, offset: int, value: Value) -> None:
    """Write the residues of the algebra: a cell without one holds what the kernel wrote there."""
    step = 2 if value.width == 64 else 1
    for index in range(max(1, value.width // 16)):
        lane = value.lane(index // step) if index % step == 0 else ZERO
        number = "1"
        if lane != ZERO:
            slot = cx.let(f"bitcast double {lane} to i64")
            number = cx.call("i32", "al_store", ("i64", "%launch.i"), ("i64", slot))
        cx.line(f"store i32 {number}, ptr {_at(cx, cell.shadow, 2 * offset + 4 * index)}, align 4")


def report_if(cx: Emit, condition: str, kind: int, address_text: str = "0") -> None:
    """Report a finding at the instruction in work where an i1 holds."""
    report, done = cx.fresh("report"), cx.fresh("go")
    cx.branch(condition, report, done)
    cx.label(report)
    call_report(cx, kind, address_text)
    cx.jump(done)
    cx.lines.append(f"{done}:")


def call_report(cx: Emit, kind: int, address_text: str = "0") -> None:
    """Report a finding at the instruction in work."""
    cx.call(
        "void",
        "rt_report",
        *[("i64", one) for one in ("%thread.i", "%block.i", "%launch.i")],
        ("i64", str(kind)),
        ("i64", str(cx.site)),
        ("i64", address_text),
    )


def _at(cx: Emit, pointer: str, offset: int) -> str:
    return pointer if offset == 0 else cx.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
