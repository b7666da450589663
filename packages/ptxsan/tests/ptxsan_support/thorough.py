"""Which of many inputs `make test` tries, where `make power` tries them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Return parameters of which every `count`th, from the first on, is not marked thorough.

    A value that is a tuple is a row of several parameters.
    """
    made = []
    for place, value in enumerate(values):
        marks = [pytest.mark.thorough] if place % count else []
        row = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*row, marks=marks))
    return made
