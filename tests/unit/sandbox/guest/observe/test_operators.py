"""Operations of torch below a library's frames: noted by line, or given another result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.model.reached import Instead, OperatorExchange
from cuassay.sandbox.guest.observe import operators
from cuassay.sandbox.guest.observe.operators import Operators
from tests.support.counted_library import counted_library

_CODE = """#line 5 "kernel.cpp"
extern "C" void both(void (*first)(void), void (*second)(void)) {
  first();
  second();
}
"""
_Both = Callable[[Callable[[], None], Callable[[], None]], None]


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Both:
    """A function of a followed library that calls two others, each on a line of its own."""
    lines, library = counted_library(tmp_path, _CODE)
    monkeypatch.setattr(operators, "HOST_LINES", lines)
    kind = ctypes.CFUNCTYPE(None)

    def called(first: Callable[[], None], second: Callable[[], None]) -> None:
        library.both(kind(first), kind(second))

    return called


class _Calls:
    """Two operations by way of the library, and one that does not come from it."""

    def __init__(self, both: _Both) -> None:
        self._both, self.found = both, Operators()

    def __call__(self, wanted: OperatorExchange) -> tuple[torch.Tensor, torch.Tensor, bool]:
        x, made = torch.full((3,), 2.0), dict[str, torch.Tensor]()

        def first() -> None:
            made["product"] = x * torch.full((3,), 5.0)

        def second() -> None:
            made["sum"] = made["product"] + torch.ones(3)

        with self.found.exchanged(wanted) as mode:
            outside = x * 7.0
            self._both(first, second)
        assert outside.tolist() == [14.0] * 3
        return made["product"], made["sum"], mode.happened


def test_operations_are_noted_with_the_line_that_calls_them(both: _Both) -> None:
    calls = _Calls(both)
    calls(OperatorExchange())
    told: dict[str, dict[str, Any]] = {one["site"].split()[0]: one for one in calls.found.found()}
    assert set(told) == {"mul", "add"}
    assert Path(told["mul"]["file"]).name == "kernel.cpp"
    assert told["mul"]["line"] == 6
    assert told["add"]["line"] == 7
    parts = (Instead.ZERO, Instead.FIRST, Instead.SECOND)
    assert set(told["mul"]["instead"]) == {one.value for one in parts}
    assert set(told["add"]["instead"]) == {Instead.ZERO.value}  # of a sum no part alone
    assert calls.found.found() == []


@pytest.mark.parametrize(
    ("instead", "product"), [(Instead.ZERO, 0.0), (Instead.FIRST, 2.0), (Instead.SECOND, 5.0)]
)
def test_the_result_of_one_operation_is_another_one(
    both: _Both, instead: Instead, product: float
) -> None:
    calls = _Calls(both)
    calls(OperatorExchange())
    site = next(one["site"] for one in calls.found.found() if one["site"].startswith("mul"))
    made, total, happened = calls(OperatorExchange(site=site, instead=instead))
    assert happened
    assert made.tolist() == [product] * 3
    assert total.tolist() == [product + 1.0] * 3


def test_what_does_not_happen_is_told(both: _Both) -> None:
    made, _, happened = _Calls(both)(OperatorExchange(site="mul 1-2 9"))
    assert not happened
    assert made.tolist() == [10.0] * 3
