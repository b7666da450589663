"""Values that a kernel's sources compare elements with: thresholds and clamps, for cases beyond.

A branch for gates below -15, or a clamp at 1e8, is seen only by a case whose elements lie beyond,
and so is a maximum that begins at -5e4. What is read here decides nothing: it says which values
are worth a case.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC, fill
from cuassay.model.case import Case
from cuassay.model.python_text import parse_python

_LEAST, _MOST = 1.0, 1e9  # nearer to zero, and farther off, other regimes lie on both sides
_LOWEST = (-1e6, -1e3)  # where a finite number stands for minus infinity and elements may lie below
_FILLED = frozenset(("full", "full_like", "new_full", "constexpr"))
_CASES = 4
_BEYOND, _SPREAD = 1.25, 0.05  # of the value: mean and deviation of what lies beyond it
_CLAMPS = frozenset(
    ("clamp", "clamp_", "clamp_min", "clamp_max", "clip", "min", "max", "minimum", "maximum")
)
_NUMBER = r"(-?\d+\.\d*(?:[eE][+-]?\d+)?)[fF]?"
_CUDA = re.compile(rf"(?:[<>]=?\s*|\bf(?:min|max)f?\([^(),]*,\s*){_NUMBER}")
_BEGUN = re.compile(rf"(?<![<>=!])=\s*{_NUMBER}")


def named_values(texts: Iterable[str]) -> tuple[float, ...]:
    """Return the numbers of magnitudes 1 to 1e9 that sources compare or clamp with, each once.

    Whole numbers that are positive count in clamps of tensors alone: elsewhere they are sizes.
    What a name or a tensor begins with counts where it may stand for minus infinity.
    """
    found = (value for text in texts for value in _in_text(text))
    return tuple(dict.fromkeys(v for v in found if _LEAST <= abs(v) <= _MOST))


def beyond_values(planner: Planner) -> Iterator[Case]:
    """Yield a case for each of the first values, all elements of its main inputs beyond it."""
    sizes = planner.few(planner.budget.small_elements)
    for value in planner.values[:_CASES]:
        main = fill("normal", mean=_BEYOND * value, scale=_SPREAD * abs(value))
        regime = replace(NUMERIC[0], name=f"beyond {value:g} of the source", main=main)
        yield planner.case(regime.name, sizes, regime)


def _in_text(text: str) -> Iterator[float]:
    try:
        tree = parse_python(text)
    except SyntaxError:
        yield from _in_cuda(text)
        return
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others, ops=operators):
                if any(isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in operators):
                    for side in (left, *others):
                        yield from _number(side, whole=False)
            case ast.Call(func=ast.Attribute(attr=name), args=given, keywords=named):
                if name in _CLAMPS:
                    for side in (*given, *(one.value for one in named)):
                        yield from _number(side, whole=True)
                elif name in _FILLED:
                    for side in given[:2]:
                        yield from filter(_is_lowest, _number(side, whole=False))
            case ast.Assign(value=begun) | ast.AnnAssign(value=ast.expr() as begun):
                yield from filter(_is_lowest, _number(begun, whole=False))
            case ast.Constant(value=str() as inner) if "__global__" in inner:
                yield from _in_cuda(inner)
            case _:
                pass


def _in_cuda(text: str) -> Iterator[float]:
    yield from map(float, _CUDA.findall(text))
    yield from filter(_is_lowest, map(float, _BEGUN.findall(text)))


def _is_lowest(value: float) -> bool:
    return _LOWEST[0] <= value <= _LOWEST[1]


def _number(node: ast.expr, *, whole: bool) -> Iterator[float]:
    """Yield the number that an expression is; a positive whole one only where `whole` says so.

    None beyond `_MOST`: a whole number may be too large for a float.
    """
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            sign = -1.0
        case ast.Constant(value=float() as value):
            sign = 1.0
        case ast.Constant(value=int() as value) if whole and not isinstance(value, bool):
            sign = 1.0
        case _:
            return
    if abs(value) <= _MOST:
        yield sign * value
