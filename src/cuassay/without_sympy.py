"""Torch's functions for the device `meta`, and its gradients, without sympy: sizes are numbers.

What these functions compute of sizes may be symbolic, so each of them asks, and to ask torch loads
sympy and all that knows symbols: a second of Python on a good host, four where nothing of it was
ever compiled. Of plain numbers the answers are known.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import operator
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

_SYMPY, _SYMBOLS = "sympy", "torch.fx.experimental.symbolic_shapes"
# The modules whose functions ask, and those within them.
_ASK = (
    "_decomp",
    "_meta_registrations",
    "_prims",
    "_prims_common",
    "_refs",
    "_tensor",
    "autograd",
    "functional",
)


class _Unmet:
    """The type of what no plain number is."""


class _UnmetError(Exception):
    """What is raised of symbols alone."""


def _same(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _equal(x: Any, y: Any) -> Any:
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(map(_equal, x, y))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"sizes are compared, not {type(x)} with {type(y)}")


def _no(_: Any) -> bool:
    return False


def _yes(_: Any) -> bool:
    return True


_OF_SYMPY: Mapping[str, Any] = {"Basic": _Unmet}
_OF_SYMBOLS: Mapping[str, Any] = {  # some of these in older versions of torch alone
    "GuardOnDataDependentSymNode": _UnmetError,
    "_advise_is_bounded": _nothing,
    "_advise_is_size": _nothing,
    "definitely_true": _same,
    "expect_true": _same,
    "free_unbacked_symbols": lambda expression: frozenset(),
    "guard_bool": _same,
    "guard_float": _same,
    "guard_int": _same,
    "guard_or_false": _same,
    "guard_or_true": _same,
    "guard_scalar": _same,
    "guard_size_oblivious": _same,
    "guarding_hint_or_throw": _same,
    "has_guarding_hint": _yes,
    "has_hint": _yes,
    "hint_int": _same,
    "is_concrete_bool": _yes,
    "is_concrete_int": _yes,
    "is_nested_int": _no,
    "is_symbolic": _no,
    "size_hint": _same,
    "statically_known_true": _same,
    "sym_and": lambda *values: functools.reduce(operator.and_, values),
    "sym_eq": _equal,
    "sym_or": lambda *values: functools.reduce(operator.or_, values),
}


class _StandIn(ModuleType):
    """Answers for a module what is known of plain numbers; for all else it loads the module."""

    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        super().__init__(name)
        self._known = known

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__["_known"]
        if name in known:
            return known[name]
        return getattr(importlib.import_module(self.__name__), name)


_STAND_INS = {
    _SYMPY: _StandIn(_SYMPY, _OF_SYMPY),
    _SYMBOLS: _StandIn(_SYMBOLS, _OF_SYMBOLS),
}


class _Imports:
    """Gives the stand-ins to torch's functions, in the threads that ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here = threading.local()
        self._count = 0
        self._usual: Any = None

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._usual, builtins.__import__ = builtins.__import__, self._import
        depth = self._depth()
        self._here.depth = depth + 1
        try:
            yield
        finally:
            self._here.depth = depth
            with self._lock:
                self._count -= 1
                if not self._count and builtins.__import__ == self._import:
                    builtins.__import__ = self._usual

    def _depth(self) -> int:
        depth: int = getattr(self._here, "depth", 0)
        return depth

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name in _STAND_INS and not level and self._depth():
            asks = str((globals or {}).get("__name__", "")).split(".")
            ours = asks[0] == "torch" and (len(asks) == 1 or asks[1] in _ASK)
            binds = name == _SYMPY or bool(fromlist)  # else `torch` is what is bound
            if ours and binds and name not in sys.modules:
                return _STAND_INS[name]
        return self._usual(name, globals, locals, fromlist or (), level)


_IMPORTS = _Imports()


def sizes_are_numbers() -> contextlib.AbstractContextManager[None]:
    """Return a block in which this thread's sizes are numbers: nothing asks sympy of them."""
    return _IMPORTS.replaced()
