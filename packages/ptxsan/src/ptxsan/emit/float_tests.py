"""Float comparisons (setp, set) and testp."""

from __future__ import annotations

from ptxsan.emit.compare import combine, write_mask, write_predicates
from ptxsan.emit.context import Emit
from ptxsan.emit.floating import as_single, flush
from ptxsan.emit.registry import emits
from ptxsan.emit.values import Value
from ptxsan.syntax import Instruction

# An ordered comparison is false where an operand is a NaN, the ones in ..u true.
_ORDERS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
_FLOATS = ("f16", "bf16", "f32", "f64")
_TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def _operand(cx: Emit, ins: Instruction, value: Value) -> str:
    if value.type == "f64":
        return cx.as_float(value)
    text = as_single(cx, value.bits, value.type)
    if "ftz" not in ins.parts:
        return text
    if value.type == "f16":
        size = cx.call("float", "llvm.fabs.f32", ("float", text))
        tiny = cx.let(f"fcmp olt float {size}, 0x3F10000000000000")  # 2**-14
        return cx.let(f"select i1 {tiny}, float 0.0, float {text}")
    return flush(cx, text)


def _compare(cx: Emit, ins: Instruction) -> tuple[str, str]:
    type_ = ins.parts[-1]
    order = next((part for part in ins.parts[1:] if part in _ORDERS), None)
    if order is None:
        cx.unsupported("names no float comparison")
    a, b = cx.read(ins.operands[1], type_), cx.read(ins.operands[2], type_)
    kind = "double" if type_ == "f64" else "float"
    x, y = _operand(cx, ins, a), _operand(cx, ins, b)
    return cx.let(f"fcmp {_ORDERS[order]} {kind} {x}, {y}"), cx.either(a.poison, b.poison)


@emits("setp", types=_FLOATS)
def emit_set_predicate_float(cx: Emit, ins: Instruction) -> None:
    """Compare two floats."""
    result, poison = _compare(cx, ins)
    write_predicates(cx, ins, result, poison)


@emits("set", types=_FLOATS)
def emit_set_float(cx: Emit, ins: Instruction) -> None:
    """Compare two floats; the result is all ones (or 1.0) where it holds."""
    result, poison = _compare(cx, ins)
    write_mask(cx, ins, combine(cx, ins, result, poison))


@emits("setp", types=("f16x2", "bf16x2"))
def emit_set_predicate_packed(cx: Emit, ins: Instruction) -> None:
    """Compare two pairs of halves: `p|q` is the result of the low and of the high ones."""
    from ptxsan.emit.halves import halves
    from ptxsan.syntax import Pair

    order = next((part for part in ins.parts[1:] if part in _ORDERS), None)
    to = ins.operands[0]
    if order is None or not isinstance(to, Pair):
        cx.unsupported("needs a comparison and two predicates")
    a, b = (halves(cx, operand, ins.parts[-1]) for operand in ins.operands[1:3])
    results = []
    for x, y in zip(a, b, strict=True):
        bits = cx.let(f"fcmp {_ORDERS[order]} float {_operand(cx, ins, x)}, {_operand(cx, ins, y)}")
        results.append(combine(cx, ins, bits, cx.either(x.poison, y.poison)))
    cx.copy(to.first, results[0])
    cx.copy(to.second, results[1])


@emits("testp")
def emit_test_property(cx: Emit, ins: Instruction) -> None:
    """Test a float for being finite, infinite, a number, a NaN, normal or subnormal."""
    type_ = ins.parts[-1]
    kind = next((part for part in ins.parts[1:] if part in _TESTS), None)
    if kind is None or type_ not in ("f32", "f64"):
        cx.unsupported("tests no known property")
    a = cx.read(ins.operands[1], type_)
    wide = a.bits if a.width == 64 else cx.let(f"zext i32 {a.bits} to i64")
    number = ("i32", str(_TESTS.index(kind)))
    found = cx.call("i32", "test_property", number, ("i64", wide), ("i32", str(a.width)))
    cx.write(ins.operands[0], "pred", cx.let(f"icmp ne i32 {found}, 0"), sources=(a,))
