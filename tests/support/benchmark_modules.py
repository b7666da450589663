"""Benchmarks as modules: they import each other by bare names from their own folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def loaded(monkeypatch: pytest.MonkeyPatch, name: str, *others: str) -> Iterator[ModuleType]:
    """Yield a benchmark, loaded anew; then forget it, and the `others` that it imports."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for one in (name, *others):
        monkeypatch.delitem(sys.modules, one, raising=False)
    yield importlib.import_module(name)
    for one in (name, *others):
        sys.modules.pop(one, None)
