"""Resolve axis sizes: constants, a workload's bindings, then expressions in order."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence

from cuassay.errors import NoSizeError, ProblemError
from cuassay.model.problem import Axis, ConstAxis, ExprAxis, Problem, VarAxis

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LONGEST = 1000  # characters of an expression; the longest of a real problem has 60
SHARES = (256, 64, 16, 4)  # by which all sizes of a long loop are divided to make it shorter
_LIMIT = 2**48  # no axis of a tensor that fits a device comes near it


def evaluate(expression: str, names: Mapping[str, int]) -> int:
    """Evaluate an axis expression over axis sizes; the result must be an integer.

    Raises ProblemError for another syntax, an unknown name, a division by zero, or a
    result that is not integral.
    """
    if len(expression) > _LONGEST:
        raise ProblemError(
            f"axis expression '{expression[:40]}...' has {len(expression)} characters, expected at "
            f"most {_LONGEST}"
        )
    try:
        value = names[expression] if expression in names else _value(_parsed(expression), names)
    except ZeroDivisionError as error:
        raise NoSizeError(f"axis expression '{expression}' cannot be evaluated: {error}") from None
    except (SyntaxError, OverflowError, RecursionError, ValueError) as error:
        raise ProblemError(f"axis expression '{expression}' cannot be evaluated: {error}") from None
    if not abs(value) <= _LIMIT or value != int(value):  # NaN is not within any limit
        raise NoSizeError(
            f"axis expression '{expression}' gives {value:g}, expected an integer of at most 2^48"
        )
    return int(value)


@functools.lru_cache(maxsize=4096)  # a trial asks for the same shapes thousands of times
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression.strip(), mode="eval").body


def _value(node: ast.expr, names: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"unknown axis '{name}' (known: {', '.join(names)})")
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = _value(left, names), _value(right, names)
            if abs(exponent) > 64:
                raise ValueError(f"exponent {exponent} is too large")
            if base < 0 and exponent != int(exponent):
                raise ValueError(f"{base} has no real power {exponent}")
            if exponent > 1 and abs(base) > _LIMIT:
                raise ValueError("a base above 2^48 gives no size")
            return float(base**exponent) if exponent < 0 else base**exponent
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_] as given):
            return (min if name == "min" else max)(_value(part, names) for part in given)
        case ast.Call(func=ast.Name(id="ceil"), args=[given], keywords=[]):
            return math.ceil(_value(given, names))
    raise ValueError(
        f"'{ast.unparse(node)}' is not allowed; use + - * / // % ** ceil() min() max() and axis "
        "names"
    )


def names_in(expression: str) -> set[str]:
    """Return the axes that an expression names, without its functions. Raises SyntaxError."""
    nodes = list(ast.walk(ast.parse(expression.strip(), mode="eval")))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in functions}


def resolve(axes: Sequence[Axis], bound: Mapping[str, int]) -> dict[str, int]:
    """Return every axis size: constants first, then `bound` (may override), then expressions.

    Raises ProblemError for an unbound or unknown axis and for a negative size.
    """
    sizes = {axis.name: axis.value for axis in axes if isinstance(axis, ConstAxis)}
    known = [axis.name for axis in axes]
    for name, size in bound.items():
        if name not in known:
            raise ProblemError(f"axis '{name}' is not declared (known: {', '.join(known)})")
        sizes[name] = size
    for axis in axes:
        if isinstance(axis, ExprAxis):
            sizes[axis.name] = evaluate(axis.expression, sizes)
        elif isinstance(axis, VarAxis) and axis.name not in sizes:
            raise ProblemError(f"axis '{axis.name}' has no size: bind it in the workload's axes")
    for name, size in sizes.items():
        if size < 0:
            raise ProblemError(f"axis '{name}' has size {size}, expected 0 or more")
    return {name: sizes[name] for name in known}


def shape_of(shape: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of a spec's shape: axis names, decimal literals or expressions."""
    return tuple(evaluate(dimension, sizes) for dimension in shape)


def smallest_workload_axes(problem: Problem) -> dict[str, int]:
    """Return the resolved axes of the workload with the smallest product of var axes."""
    resolved = [resolve(problem.axes, workload.axes) for workload in problem.workloads]
    if not resolved:
        raise ProblemError(f"problem '{problem.name}' has no workload; give at least one")

    def volume(sizes: Mapping[str, int]) -> int:
        product = 1
        for size in sizes.values():
            product *= max(size, 1)
        return product

    return min(resolved, key=volume)
