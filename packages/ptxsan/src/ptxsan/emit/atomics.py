"""atom and red on integers; floats are added by the families that know their rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ptxsan import isa
from ptxsan.emit import cells, deferred
from ptxsan.emit.context import Emit
from ptxsan.emit.memory import synchronise
from ptxsan.emit.registry import emits
from ptxsan.emit.stored import note_stored
from ptxsan.emit.values import Value, is_signed, width_of
from ptxsan.isa import Result, scope_of, space_of
from ptxsan.runtime import layout
from ptxsan.syntax import Instruction, Operand, Vector

_TYPES = ("u32", "s32", "b32", "u64", "s64", "b64", "b16", "b128")
_BITWISE = {"and": "and", "or": "or", "xor": "xor"}
Combine = Callable[[Value, list[Value]], Value]


@emits("atom", "red", types=_TYPES)
def emit_atomic(cx: Emit, ins: Instruction) -> None:
    """Read, combine and write at once: add, min, max, inc, dec, and, or, xor, exch, cas."""
    type_ = ins.parts[-1]
    operation = next(
        (part for part in ins.parts[1:] if part in _OPERATIONS or part in _BITWISE), None
    )
    if operation is None:
        cx.unsupported("is an atomic operation that is not known")
    emit_update(cx, ins, type_, lambda old, new: _combine(cx, operation, old, new))


def emit_update(cx: Emit, ins: Instruction, type_: str, combine: Combine) -> None:
    """Emit an atomic update of one element or a vector of them.

    `combine(old, operands)` returns the value to store; `atom` also returns the old one.
    """
    if "async" in ins.parts:
        cx.unsupported("is an asynchronous reduction, which is not modelled")
    has_result = isa.row(ins).result is Result.FIRST
    rest = ins.operands[1:] if has_result else ins.operands
    items = [_items(one) for one in rest[1:]]
    count = len(items[0])
    size = width_of(type_) // 8
    synchronise(cx, ins, acquire=False, release=True)
    cell = cells.access(cx, rest[0], space_of(ins), size * count, "atomic", scope=scope_of(ins))
    read = cx.site not in cx.updates.unread
    looks = read or "exch" not in ins.parts
    results = []
    for index in range(count):
        operands = [cx.read(one[index], type_) for one in items]
        if space_of(ins) != "shared" and {"cas", "exch"} & set(ins.parts):
            note_stored(cx, [items[-1][index]], operands[-1:])
        update = partial(_update, cx, type_, combine, looks)
        if cx.updates.deferrable and space_of(ins) != "shared":
            deferred.update(cx, rest[0], cell, index * size, operands[0], update)
        else:
            results.append(update(operands, cell, index * size))
    if read:
        synchronise(cx, ins, acquire=True, release=False)
        for item, old in zip(_items(ins.operands[0]), results, strict=True):
            cx.copy(item, old)


def _update(
    cx: Emit, type_: str, combine: Combine, looks: bool, operands: list[Value], cell: cells.Cell,
    offset: int,
) -> Value:  # fmt: skip
    """Emit the update of one element; return what was there.

    `looks`: the result depends on what was there (that of an exchange which nobody reads does not).
    """
    old = cells.load(cx, cell, offset, type_)
    if looks and old.poison != "false":
        report_uninitialised(cx, old)
    new = combine(old, operands)
    # Count an update that changes memory: who waits for another one may go on.
    changed = cx.let(f"icmp ne i{old.width} {old.bits}, {new.bits}")
    before, one = cx.load_field("%block", layout.CHANGES), cx.let(f"zext i1 {changed} to i32")
    cx.store_field("%block", layout.CHANGES, cx.let(f"add i32 {before}, {one}"))
    cells.store(cx, cell, offset, new)
    return old


def report_uninitialised(cx: Emit, old: Value) -> None:
    """An atomic that reads what nobody wrote computes with it at once."""
    cells.report_if(cx, old.poison, layout.K_UNINIT)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _combine(cx: Emit, operation: str, old: Value, new: list[Value]) -> Value:
    kind = f"i{old.width}"
    poison = cx.either(old.poison, *(one.poison for one in new))
    if operation == "exch":
        return new[0]
    if operation in _BITWISE:
        bits = cx.let(f"{_BITWISE[operation]} {kind} {old.bits}, {new[0].bits}")
    else:
        bits = _OPERATIONS[operation](cx, kind, old, new)
    if operation == "cas":
        # The shadow of a compare and swap: the new value's where it is stored.
        same = cx.let(f"icmp eq {kind} {old.bits}, {new[0].bits}")
        lanes = max(len(old.shadow), len(new[1].shadow))
        shadow = tuple(
            cx.let(f"select i1 {same}, double {new[1].lane(lane)}, double {old.lane(lane)}")
            for lane in range(lanes)
        )
    else:
        shadow = ()
    return Value(old.type, bits, poison, shadow)


def _add(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
    return cx.let(f"add {kind} {old.bits}, {new[0].bits}")


def _extreme(name: str) -> Callable[[Emit, str, Value, list[Value]], str]:
    def emit(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
        sign = "s" if is_signed(old.type) else "u"
        return cx.call(kind, f"llvm.{sign}{name}.{kind}", (kind, old.bits), (kind, new[0].bits))

    return emit


def _increase(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
    wraps = cx.let(f"icmp uge {kind} {old.bits}, {new[0].bits}")
    return cx.let(f"select i1 {wraps}, {kind} 0, {kind} {cx.let(f'add {kind} {old.bits}, 1')}")


def _decrease(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
    zero = cx.let(f"icmp eq {kind} {old.bits}, 0")
    above = cx.let(f"icmp ugt {kind} {old.bits}, {new[0].bits}")
    wraps = cx.let(f"or i1 {zero}, {above}")
    less = cx.let(f"sub {kind} {old.bits}, 1")
    return cx.let(f"select i1 {wraps}, {kind} {new[0].bits}, {kind} {less}")


def _exchange(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
    return new[0].bits


def _swap(cx: Emit, kind: str, old: Value, new: list[Value]) -> str:
    same = cx.let(f"icmp eq {kind} {old.bits}, {new[0].bits}")
    return cx.let(f"select i1 {same}, {kind} {new[1].bits}, {kind} {old.bits}")


_OPERATIONS: dict[str, Callable[[Emit, str, Value, list[Value]], str]] = {
    "add": _add,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "inc": _increase,
    "dec": _decrease,
    "exch": _exchange,
    "cas": _swap,
}
