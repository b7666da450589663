"""A GPU's context is made beside Python, and says how long the driver took."""

from __future__ import annotations

import ctypes
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.model.device import CPU, CUDA
from cuassay.sandbox.gpu_context import begin_context


def test_the_driver_s_seconds_are_told_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    retained: list[float] = []

    def retain(context: Any, handle: Any) -> int:
        time.sleep(0.1)
        retained.append(time.perf_counter())
        return 0

    driver = SimpleNamespace(
        cuInit=lambda flags: 0,
        cuDeviceGet=lambda handle, number: 0,
        cuDevicePrimaryCtxRetain=retain,
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    begun = begin_context(CUDA)
    assert begun is not None
    assert not retained
    assert begun.result(timeout=60.0) >= 0.1
    assert len(retained) == 1


def test_a_machine_without_a_driver_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    begun = begin_context(CUDA)
    assert begun is not None
    assert begun.result(timeout=60.0) < 60.0


def test_a_cpu_has_no_context() -> None:
    assert begin_context(CPU) is None
