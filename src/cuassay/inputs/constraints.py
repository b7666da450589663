"""Constraints on axis sizes: Python comparisons over axis names, such as `hidden % 8 == 0`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from cuassay.errors import ProblemError
from cuassay.model.axes import evaluate

_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def constraint_holds(constraint: str, sizes: Mapping[str, int]) -> bool | None:
    """Return whether a constraint holds, or None where it is not about axis sizes.

    Comparisons may be chained and joined by `and`, `or`, `not`. Prose and other syntax,
    which problem files contain, cannot be judged and give None.
    """
    try:
        return _truth(ast.parse(constraint.strip(), mode="eval").body, sizes)
    except (SyntaxError, ProblemError, ValueError):
        return None


def _truth(node: ast.expr, sizes: Mapping[str, int]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(part, sizes) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_truth(part, sizes) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand, sizes)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            values = [evaluate(ast.unparse(part), sizes) for part in (left, *rights)]
            pairs = zip(ops, values[:-1], values[1:], strict=True)
            return all(_compare(op)(a, b) for op, a, b in pairs)
    raise ValueError(f"'{ast.unparse(node)}' is not a comparison")


def _compare(op: ast.cmpop) -> Callable[[int, int], bool]:
    if type(op) not in _COMPARE:
        raise ValueError(f"comparison '{type(op).__name__}' is not about sizes")
    return _COMPARE[type(op)]
