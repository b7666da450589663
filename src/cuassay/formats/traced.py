"""Whole numbers that remember how code computed them from sizes.

A generator may size a tensor as `max(batch * ((length + 15) // 16) + 8, 64)`. No few samples tell
such a rule, and the code says it: run once with these numbers, each value that it computes has the
expression over the sizes from which it came. A branch that the code took is not part of it, so an
expression holds only where other samples bear it out.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

_LONGEST = 200  # characters of an expression that is worth keeping
_MOST = 512  # expressions of one run: loops compute the same ones anew


class Traced(int):
    """A whole number with the expression that it came from; `seen` collects those of one run."""

    text: str
    seen: MutableMapping[str, int]

    @classmethod
    def of(cls, value: int, text: str, seen: MutableMapping[str, int]) -> int:
        """Return `value` as what `text` computes; a plain number where the text is too long."""
        if len(text) > _LONGEST or (text not in seen and len(seen) >= _MOST):
            return value
        made = cls(value)
        made.text, made.seen = text, seen
        seen[text] = value
        return made

    def _with(self, other: object, sign: str, result: Any, *, swapped: bool = False) -> Any:
        if type(result) is not int or not isinstance(other, int):
            return result
        mine, theirs = self.text, _text(other)
        text = f"({theirs} {sign} {mine})" if swapped else f"({mine} {sign} {theirs})"
        return Traced.of(result, text, self.seen)

    def __add__(self, other: Any) -> Any:
        return self._with(other, "+", int.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return self._with(other, "+", int.__radd__(self, other), swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, "-", int.__sub__(self, other))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, "-", int.__rsub__(self, other), swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, "*", int.__mul__(self, other))

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, "*", int.__rmul__(self, other), swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, "//", int.__floordiv__(self, other))

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, "//", int.__rfloordiv__(self, other), swapped=True)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, "%", int.__mod__(self, other))

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, "%", int.__rmod__(self, other), swapped=True)

    def __neg__(self) -> int:
        return Traced.of(-int(self), f"(-{self.text})", self.seen)

    def __truediv__(self, other: Any) -> Any:
        result = int.__truediv__(self, other)
        if not isinstance(other, int):
            return result
        return _Quotient(result, f"(-(-{self.text} // {_text(other)}))", self.seen)


class _Quotient(float):
    """A quotient of whole numbers: `ceil` of it is a whole number with an expression."""

    def __new__(cls, value: float, up: str, seen: MutableMapping[str, int]) -> _Quotient:
        made = super().__new__(cls, value)
        made.up, made.seen = up, seen
        return made

    up: str
    seen: MutableMapping[str, int]

    def __ceil__(self) -> int:
        return Traced.of(math.ceil(float(self)), self.up, self.seen)


def untraced(value: Any) -> Any:
    """Return plain numbers for those that remember their expression, also in containers."""
    if isinstance(value, Traced):
        return int(value)
    if isinstance(value, _Quotient):
        return float(value)
    if isinstance(value, dict):
        return {key: untraced(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(untraced, value))
    return value


def _text(value: int) -> str:
    return value.text if isinstance(value, Traced) else f"({value})" if value < 0 else str(value)


@contextmanager
def traced_limits(names: MutableMapping[str, Any]) -> Iterator[None]:
    """Let `min` and `max` of a module whose top level is `names` keep expressions, meanwhile.

    A module that defines functions of these names keeps its own.
    """
    ours: dict[str, Callable[..., Any]] = {"max": _limit("max"), "min": _limit("min")}
    put = [name for name in ours if name not in names]
    names.update((name, ours[name]) for name in put)
    try:
        yield
    finally:
        for name in put:
            names.pop(name, None)


def _limit(name: str) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(builtins, name)

    def limit(*given: Any, **named: Any) -> Any:
        found = plain(*given, **named)
        values: Iterable[Any] = given if len(given) > 1 and not named else ()
        numbers = [value for value in values if isinstance(value, int)]
        traced = next((value for value in numbers if isinstance(value, Traced)), None)
        if traced is None or len(numbers) != len(given):
            return found
        text = f"{name}({', '.join(map(_text, numbers))})"
        return Traced.of(int(found), text, traced.seen)

    return limit
