"""f32 and f64 arithmetic, as a basis; numerics families with exact rounding take precedence."""

from __future__ import annotations

from cuassay.machine.emit.atomics import emit_update
from cuassay.machine.emit.compare import write_predicates
from cuassay.machine.emit.context import Emit
from cuassay.machine.emit.registry import emits
from cuassay.machine.emit.values import Value
from cuassay.machine.syntax import Instruction

_REAL = {"f32": "float", "f64": "double"}
_OPERATIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _finish(
    cx: Emit, ins: Instruction, result: str, exact: str | None, sources: tuple[Value, ...]
) -> None:
    type_ = ins.parts[-1]
    width = 32 if type_ == "f32" else 64
    shadow: tuple[str, ...] = ()
    if cx.shadow_on and exact is not None and type_ == "f32":
        wide = cx.let(f"fpext float {result} to double")
        shadow = (cx.let(f"fsub double {exact}, {wide}"),)
    cx.write(ins.operands[0], type_, cx.float_bits(result, width), sources=sources, shadow=shadow)


@emits("add", "sub", "mul", "div", types=("f32", "f64"))
def emit_arithmetic(cx: Emit, ins: Instruction) -> None:
    """Sum, difference, product, quotient, rounded to nearest."""
    type_, operation = ins.parts[-1], _OPERATIONS[ins.base]
    a, b = (cx.read(one, type_) for one in ins.operands[1:3])
    x, y = cx.as_float(a), cx.as_float(b)
    result = cx.let(f"{operation} {_REAL[type_]} {x}, {y}")
    exact = cx.let(f"{operation} double {cx.exact(a)}, {cx.exact(b)}")
    _finish(cx, ins, result, exact, (a, b))


@emits("fma", "mad", types=("f32", "f64"))
def emit_fused(cx: Emit, ins: Instruction) -> None:
    """Product and sum with one rounding."""
    type_ = ins.parts[-1]
    values = [cx.read(one, type_) for one in ins.operands[1:4]]
    kind = _REAL[type_]
    texts = [(kind, cx.as_float(one)) for one in values]
    result = cx.call(kind, f"llvm.fma.f{values[0].width}", *texts)
    wide = [("double", cx.exact(one)) for one in values]
    exact = cx.call("double", "llvm.fma.f64", *wide)
    _finish(cx, ins, result, exact, tuple(values))


@emits("min", "max", types=("f32", "f64"))
def emit_extreme(cx: Emit, ins: Instruction) -> None:
    """The smaller or larger number; a NaN loses."""
    type_ = ins.parts[-1]
    a, b = (cx.read(one, type_) for one in ins.operands[1:3])
    kind = _REAL[type_]
    name = "minimumnum" if ins.base == "min" else "maximumnum"
    result = cx.call(
        kind, f"llvm.{name}.f{a.width}", (kind, cx.as_float(a)), (kind, cx.as_float(b))
    )
    exact = cx.call("double", f"llvm.{name}.f64", ("double", cx.exact(a)), ("double", cx.exact(b)))
    _finish(cx, ins, result, exact, (a, b))


@emits("neg", "abs", types=("f32", "f64"))
def emit_sign(cx: Emit, ins: Instruction) -> None:
    """Change or remove the sign."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    kind = _REAL[type_]
    if ins.base == "neg":
        result, exact = (
            cx.let(f"fneg {kind} {cx.as_float(a)}"),
            cx.let(f"fneg double {cx.exact(a)}"),
        )
    else:
        result = cx.call(kind, f"llvm.fabs.f{a.width}", (kind, cx.as_float(a)))
        exact = cx.call("double", "llvm.fabs.f64", ("double", cx.exact(a)))
    _finish(cx, ins, result, exact, (a,))


@emits("ex2", "lg2", "sqrt", "rsqrt", "rcp", types=("f32", "f64"))
def emit_function(cx: Emit, ins: Instruction) -> None:
    """Functions of one number, computed in float64 and rounded."""
    type_ = ins.parts[-1]
    a = cx.read(ins.operands[1], type_)
    wide = cx.as_float(a)
    if type_ == "f32":
        wide = cx.let(f"fpext float {wide} to double")
    result = _function(cx, ins.base, wide)
    if type_ == "f32":
        result = cx.let(f"fptrunc double {result} to float")
    _finish(cx, ins, result, _function(cx, ins.base, cx.exact(a)), (a,))


def _function(cx: Emit, base: str, x: str) -> str:
    if base == "rcp":
        return cx.let(f"fdiv double 1.0, {x}")
    name = {"ex2": "exp2", "lg2": "log2", "sqrt": "sqrt", "rsqrt": "sqrt"}[base]
    result = cx.call("double", f"llvm.{name}.f64", ("double", x))
    return cx.let(f"fdiv double 1.0, {result}") if base == "rsqrt" else result


@emits("cvt", where=lambda ins: bool({"f32", "f64"} & set(ins.parts[-2:])))
def emit_convert(cx: Emit, ins: Instruction) -> None:
    """Between f32, f64 and integers."""
    to, source = ins.parts[-2:]
    a = cx.read(ins.operands[1], source)
    if source in _REAL and to in _REAL:
        _between_floats(cx, ins, a, to)
    elif to in _REAL:
        operation = "sitofp" if source.startswith("s") else "uitofp"
        text = cx.let(f"{operation} i{a.width} {a.bits} to {_REAL[to]}")
        cx.write(ins.operands[0], to, cx.float_bits(text, 32 if to == "f32" else 64), sources=(a,))
    elif source in _REAL:
        _to_integer(cx, ins, a, to)
    else:
        cx.unsupported("is not known")


def _between_floats(cx: Emit, ins: Instruction, a: Value, to: str) -> None:
    text, exact = cx.as_float(a), cx.exact(a)
    if a.type == to:
        name = {"rni": "roundeven", "rmi": "floor", "rpi": "ceil", "rzi": "trunc"}
        rounding = next((one for part, one in name.items() if part in ins.parts), None)
        if rounding is not None:
            kind = _REAL[to]
            text = cx.call(kind, f"llvm.{rounding}.f{a.width}", (kind, text))
    else:
        operation = "fpext" if to == "f64" else "fptrunc"
        text = cx.let(f"{operation} {_REAL[a.type]} {text} to {_REAL[to]}")
    width = 32 if to == "f32" else 64
    shadow: tuple[str, ...] = ()
    if to == "f32" and cx.shadow_on:
        shadow = (cx.let(f"fsub double {exact}, {cx.let(f'fpext float {text} to double')}"),)
    cx.write(ins.operands[0], to, cx.float_bits(text, width), sources=(a,), shadow=shadow)


def _to_integer(cx: Emit, ins: Instruction, a: Value, to: str) -> None:
    name = {"rni": "roundeven", "rmi": "floor", "rpi": "ceil"}
    rounding = next((one for part, one in name.items() if part in ins.parts), None)
    kind, text = _REAL[a.type], cx.as_float(a)
    if rounding is not None:
        text = cx.call(kind, f"llvm.{rounding}.f{a.width}", (kind, text))
    width = int(to[1:])
    sign = "s" if to.startswith("s") else "u"
    bits = cx.call(f"i{width}", f"llvm.fpto{sign}i.sat.i{width}.f{a.width}", (kind, text))
    cx.write(ins.operands[0], to, bits, sources=(a,))


@emits("setp", types=("f32", "f64"))
def emit_set_predicate(cx: Emit, ins: Instruction) -> None:
    """Compare two numbers; the u forms hold where one is NaN."""
    names = {
        "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
        "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
        "num": "ord", "nan": "uno",
    }  # fmt: skip
    order = next(part for part in ins.parts[1:] if part in names)
    type_ = ins.parts[-1]
    a, b = (cx.read(one, type_) for one in ins.operands[1:3])
    bits = cx.let(f"fcmp {names[order]} {_REAL[type_]} {cx.as_float(a)}, {cx.as_float(b)}")
    write_predicates(cx, ins, bits, cx.either(a.poison, b.poison))


@emits("atom", "red", types=("f32", "f64"))
def emit_atomic_add(cx: Emit, ins: Instruction) -> None:
    """Atomic sum."""
    type_ = ins.parts[-1]

    def combine(old: Value, new: list[Value]) -> Value:
        x = cx.let(f"fadd {_REAL[type_]} {cx.as_float(old)}, {cx.as_float(new[0])}")
        bits = cx.float_bits(x, old.width)
        return Value(type_, bits, cx.either(old.poison, new[0].poison))

    emit_update(cx, ins, type_, combine)
