"""Loads last as long as the calls beside them need, whatever the first call of a process does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.model.device import CUDA
from cuassay.model.reports import Repeats
from cuassay.model.steps import Load, Repeat
from cuassay.sandbox.guest.callers import hog, stress


class _Host:
    """A device on which a call that is waited for takes 20 ms, and one among others 0.5 ms.

    It is the clock as well: nothing that this machine does beside a test changes what is measured.
    """

    device = CUDA

    def __init__(self) -> None:
        self.calls = 0
        self.now_s = 0.0

    def destinations(self, slot: str, poison: object) -> list[Any]:
        return []

    def invoke(self, slot: str, outputs: object) -> list[tuple[str, object]]:
        self.calls += 1
        self.now_s += 0.0005
        return [("", torch.zeros(4))]


@pytest.mark.parametrize("load", [Load.BANDWIDTH, Load.MULTIPROCESSORS])
def test_a_load_is_as_long_as_a_burst_and_not_as_many_calls_that_are_waited_for(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Load, float]] = []
    monkeypatch.setattr(hog, "start_load", lambda *given: asked.append(given))
    host: Any = _Host()
    monkeypatch.setattr(stress, "time", SimpleNamespace(perf_counter=lambda: host.now_s))

    def settle(settled: Any) -> None:
        settled.now_s += 0.02

    monkeypatch.setattr(stress, "settle", settle)
    made = stress.repeat(host, Repeat(slot="a", count=64, load=load, budget_s=10.0))
    assert isinstance(made.report, Repeats)
    assert made.report.calls == host.calls == 64 + 8  # 63 of them under the load
    assert [kind for kind, _ in asked] == [load, load]
    waited_ms = 4 * 20.0 * 32
    assert all(ms < waited_ms / 4 for _, ms in asked)
    assert all(ms >= 4 * 0.5 * 31 for _, ms in asked)


def test_without_a_load_every_call_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(hog, "start_load", lambda *given: asked.append(given))
    monkeypatch.setattr(stress, "settle", lambda host: None)
    host: Any = _Host()
    stress.repeat(host, Repeat(slot="a", count=64, budget_s=10.0))
    assert host.calls == 64
    assert not asked
