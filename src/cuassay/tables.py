"""Tables of functions whose rows stand above the functions: `@row(TABLE, "sum", "mean")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def row(table: dict[K, V], *keys: K) -> Callable[[V], V]:
    """Enter the function below into a table, under each of its keys."""

    def enter(function: V) -> V:
        table.update(dict.fromkeys(keys, function))
        return function

    return enter
