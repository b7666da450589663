"""What calls in a row leave behind is looked at without garbage, and seldom by all objects."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from cuassay.model.device import CPU
from cuassay.model.reports import Holdings
from cuassay.model.steps import CallOften
from cuassay.sandbox.guest.callers.timing import call_often


class _Host:
    """As much of an interpreter as calls in a row ask for."""

    device = CPU

    def __init__(self, candidate: Callable[[], None]) -> None:
        self._candidate = candidate

    def destinations(self, slot: str, poison: object) -> list[Any]:
        return []

    def invoke(self, slot: str, outputs: object) -> list[Any]:
        self._candidate()
        return []


class _Open:
    """An open file that only the collector closes."""

    def __init__(self) -> None:
        self.itself, self._fd = self, os.open(os.devnull, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self._fd)


_KEPT: list[object] = []


def _nothing() -> None:
    pass


def _young() -> None:
    _Open()


def _old(search: Callable[[int], int] = gc.collect) -> None:
    _KEPT[:] = [_Open()]
    search(1)  # it is among the oldest by the time another one takes its place


def _leaves() -> None:
    _KEPT.append(_Open())


@pytest.mark.parametrize(
    ("candidate", "a_call", "searches"),
    [
        (_nothing, 0, [2, 1, 1]),  # of all objects once
        (_young, 0, [2, 1, 1]),
        (_old, 0, [2, 1, 2, 1, 2]),
        (_leaves, 1, [2, 1, 2, 1, 2]),
    ],
)
def test_files_that_only_the_collector_closes_are_not_held(
    candidate: Callable[[], None],
    a_call: int,
    searches: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _KEPT.clear()
    gc.collect()
    made: list[int] = []
    collect = gc.collect

    def search(generation: int = 2) -> int:
        made.append(generation)
        return collect(generation)

    monkeypatch.setattr(gc, "collect", search)
    host: Any = _Host(candidate)
    report = call_often(host, CallOften(slot="a", most=8, budget_s=60.0)).report
    monkeypatch.undo()
    _KEPT.clear()
    collect()
    assert isinstance(report, Holdings)
    looks = report.found
    assert [b.files - a.files for a, b in pairwise(looks)] == [
        a_call * (b.calls - a.calls) for a, b in pairwise(looks)
    ]
    assert len(looks) == 3
    assert made == searches
