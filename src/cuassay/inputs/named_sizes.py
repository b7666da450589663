"""Sizes that a kernel's sources speak of: thresholds, listed sizes, steps; for cases beside them.

A branch for one size, one alignment or all sizes up to a threshold is seen only by a case on its
side. What is read here decides nothing: it says which sizes are worth a case. Python is read by
its syntax tree, CUDA C++ (also inside of strings) by its operators. A name stands for every number
that it is given anywhere in its file.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from cuassay.model.python_text import parse_python

_LEAST, _MOST = 2, 1 << 20
_LEAST_WRITTEN = 64  # of a number that is compared with nothing: smaller sizes are tried anyway
_MOST_OF_A_NAME = 1000
_DEPTH = 6  # of names and sums in an expression
_FOLDED = (ast.Add, ast.Sub, ast.Mult, ast.LShift, ast.FloorDiv, ast.Pow)
_VALUE = r"\s*(\d{1,7}|[A-Za-z_]\w*)\b(?!\s*[(.\[])"
_CUDA_RULES = (
    (re.compile(rf"(?:==|!=|\bcase){_VALUE}"), "equal"),
    (re.compile(rf"(?:<=|>=|(?<![<>-])[<>](?![<>])){_VALUE}"), "bound"),
    (re.compile(rf"\b(?:min|max)\s*(?:<\w+>\s*)?\([^(),]*,{_VALUE}"), "bound"),
    (re.compile(rf"\b(?:min|max)\s*(?:<\w+>\s*)?\({_VALUE}\s*,"), "bound"),
    (re.compile(rf"[%/]{_VALUE}"), "step"),
)
_CUDA_NAMES = re.compile(
    r"(?:#\s{0,40}define\s{1,40}(\w{1,200})\s{1,40}|"
    r"\b(?:const|constexpr)\s[\w\s]{0,200}?(\w{1,200})\s{0,40}=\s{0,40})"
    r"([\w\s*+()<-]{1,60}?)\s*(?:;|$)",
    re.MULTILINE,
)
_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")
_WHOLE = re.compile(r"(?<![\w.])\d{2,7}(?![\w.])")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_CUDA_SIGNS = ("__global__", "<<<", "#include")
_LIMITS = ("min", "max", "minimum", "maximum", "clamp")  # calls whose numbers end what a size does
_TILED = {"cdiv": 1, "ceil_div": 1, "range": 2}  # calls with a step, and its position


Use: TypeAlias = "tuple[int, SizeUse, str]"  # the last is what is compared with it


class SizeUse(enum.StrEnum):
    """How the sources use a number."""

    EQUAL = "equal"  # a size is compared with it, or looked up by it
    BOUND = "bound"  # a size lies below it or above it
    STEP = "step"  # a size is a multiple of it, or not
    WRITTEN = "written"  # it stands there, whatever for


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSize:
    """One number of the sources and how it is used.

    `of` names what is compared with it: a variable (`rows`) or a dimension of one (`x.0`). Empty
    where the sources do not say, or say several things of which one is not a name.
    """

    value: int
    kind: SizeUse
    of: frozenset[str] = field(default=frozenset(), compare=False)


class _Known:
    """What each name of a file is given, and the numbers that it then stands for.

    These are found once a name: names that stand for one another can be made to take for ever.
    """

    def __init__(self) -> None:
        self.given: dict[str, list[ast.expr]] = {}
        self._numbers: dict[tuple[str, int], tuple[int, ...]] = {}

    def numbers(self, name: str, depth: int) -> tuple[int, ...]:
        """Return the numbers that a name is given, `depth` more names away, each once."""
        found = self._numbers.get((name, depth))
        if found is None:
            each = (n for one in self.given[name] for n in _numbers(one, self, depth=depth))
            distinct: dict[int, None] = {}
            for number in each:
                distinct[number] = None
                if len(distinct) >= _MOST_OF_A_NAME:
                    break
            found = self._numbers[name, depth] = tuple(distinct)
        return found


def named_sizes(texts: Iterable[str]) -> tuple[NamedSize, ...]:
    """Return the numbers from 2 to 2^20 that sources compare sizes with, each once.

    Numbers that are listed or looked up come first, then thresholds, then steps; last others that
    are written there: an entry of a table, or what bits are compared with.
    """
    found: dict[tuple[int, SizeUse], list[str]] = {}
    uses = [use for text in texts for use in _in_text(text)]
    known = {value for value, kind, _ in uses if kind is not SizeUse.WRITTEN}
    for value, kind, of in uses:
        if kind is SizeUse.WRITTEN and (value in known or value < _LEAST_WRITTEN):
            continue
        if _LEAST <= value <= _MOST:
            found.setdefault((value, kind), []).append(of)
    order = list(SizeUse)
    made = [
        NamedSize(value=value, kind=kind, of=frozenset(of) if all(of) else frozenset())
        for (value, kind), of in found.items()
    ]
    return tuple(sorted(made, key=lambda named: order.index(named.kind)))


def _in_text(text: str) -> Iterator[Use]:
    try:
        tree = parse_python(text)
    except SyntaxError:
        yield from _in_cuda(text)
        return
    known = _Known()
    for name, given in _given(tree):
        known.given.setdefault(name, []).append(given)
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                yield from _compared(node, known)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=passed) if (
                name in _LIMITS  # `min(n, 4096)`
            ):
                for one in passed:
                    others = [other for other in passed if other is not one]
                    of = others[0] if len(others) == 1 else None
                    yield from _uses(one, SizeUse.BOUND, of, known)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=passed) if (
                _TILED.get(name, len(passed)) < len(passed)  # `cdiv(n, BLOCK)`, `range(0, n, 128)`
            ):
                place = _TILED[name]
                yield from _uses(passed[place], SizeUse.STEP, passed[place - 1], known)
            case ast.BinOp(left=left, op=ast.Mod() | ast.FloorDiv(), right=right):
                yield from _uses(right, SizeUse.STEP, left, known)
            case ast.Dict(keys=keys):
                listed = ast.Tuple([key for key in keys if key is not None], ast.Load())
                yield from _uses(listed, SizeUse.EQUAL, None, known)
            case ast.MatchValue(value=value):
                yield from _uses(value, SizeUse.EQUAL, None, known)
            case ast.Constant(value=str() as inner) if any(s in inner for s in _CUDA_SIGNS):
                yield from _in_cuda(inner)
            case ast.Constant(value=int() as value) if value & (value - 1):  # no power of 2
                yield value, SizeUse.WRITTEN, ""
            case _:
                pass


def _given(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what they are assigned, passed by name, or have as a default.

    A name that a shape is unpacked into has its dimension.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                yield from ((one.id, value) for one, value in pairs if isinstance(one, ast.Name))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Attribute(attr="shape")):
                yield from (
                    (one.id, ast.Subscript(node.value, ast.Constant(place), ast.Load()))
                    for place, one in enumerate(names)
                    if isinstance(one, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.keyword(arg=str() as name, value=value):
                yield name, value
            case ast.Dict(keys=keys, values=values):  # of an autotuner's configuration
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, value
            case ast.arguments(posonlyargs=first, args=others, defaults=defaults):
                named = [*first, *others][len(first) + len(others) - len(defaults) :]
                yield from ((each.arg, value) for each, value in zip(named, defaults, strict=True))
            case _:
                pass


def _compared(node: ast.Compare, known: _Known) -> Iterator[Use]:
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        bound = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        kind = SizeUse.BOUND if bound else SizeUse.EQUAL
        for side, other in ((left, right), (right, left)):
            yield from _uses(side, kind, other, known)
            if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Mod):
                # A rest: the least size above the step that leaves it
                for step in _numbers(other.right, known):
                    for value, _, of in _uses(side, kind, other, known):
                        if 0 < value < step:
                            yield step + value, SizeUse.EQUAL, of


def _uses(
    node: ast.expr | None, kind: SizeUse, of: ast.expr | None, known: _Known
) -> Iterator[Use]:
    name = "" if of is None else _sized(of, known)
    yield from ((value, kind, name) for value in _numbers(node, known))


def _sized(node: ast.expr, known: _Known, *, depth: int = _DEPTH) -> str:
    """Return the variable or the dimension that an expression is, empty where it is neither.

    `rows` where rows is `x.shape[0]` is `x.0`; a remainder by a step is what it is taken of.
    """
    match node:
        case (
            ast.Subscript(value=ast.Attribute(value=ast.Name(id=of), attr="shape"), slice=place)
            | ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr="size"), args=[place])
        ):
            return f"{of}.{ast.unparse(place)}"
        case ast.BinOp(left=left, op=ast.Mod()):
            return _sized(left, known, depth=depth - 1) if depth else ""
        case ast.Name(id=name):
            given = known.given.get(name, ())
            if len(given) == 1 and depth:
                return _sized(given[0], known, depth=depth - 1) or name
            return name
        case _:
            return ""


def _numbers(node: ast.expr | None, known: _Known, *, depth: int = _DEPTH) -> Iterator[int]:
    """Yield the integers that an expression is or lists; names are looked up."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield value
        case ast.Tuple(elts=members) | ast.List(elts=members) | ast.Set(elts=members):
            for member in members:
                yield from _numbers(member, known, depth=depth)
        case ast.Dict(keys=keys) if depth < _DEPTH:
            for key in keys:
                yield from _numbers(key, known, depth=depth)
        case ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str() as name)) if (
            name in known.given and depth
        ):
            yield from known.numbers(name, depth - 1)
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _FOLDED):
            yield from _folded(left, operator, right, known, depth=depth)
        case _:
            return


def _folded(
    left: ast.expr, operator: ast.operator, right: ast.expr, known: _Known, *, depth: int
) -> Iterator[int]:
    if not depth:
        return
    first = list(_numbers(left, known, depth=depth - 1))
    second = list(_numbers(right, known, depth=depth - 1))
    if len(first) != 1 or len(second) != 1:
        return
    a, b = first[0], second[0]
    match operator:
        case ast.Add():
            yield a + b
        case ast.Sub():
            yield a - b
        case ast.Mult():
            yield a * b
        case ast.LShift() if 0 <= b < 32:
            yield a << b
        case ast.FloorDiv() if b:
            yield a // b
        case ast.Pow() if 0 <= b < 32 and abs(a) <= 16:
            yield a**b
        case _:
            return


def _in_cuda(text: str) -> Iterator[Use]:
    text = _SUFFIX.sub(r"\1", _COMMENT.sub(" ", text))
    known = _Known()
    for name, other, value in _CUDA_NAMES.findall(text):
        with contextlib.suppress(SyntaxError, ValueError):  # not an expression of both languages
            known.given.setdefault(name or other, []).append(
                ast.parse(value.strip(), mode="eval").body
            )
    for rule, kind in _CUDA_RULES:
        for found in rule.finditer(text):
            word = found.group(1)  # which Python may not read: `class`, `010`
            if word.isdigit():
                given: ast.expr = ast.Constant(int(word))
            else:
                given = ast.Name(word)
            yield from ((value, SizeUse(kind), "") for value in _numbers(given, known))
    for value in map(int, _WHOLE.findall(text)):
        if value & (value - 1):
            yield value, SizeUse.WRITTEN, ""
