"""What a judge launches while it imports: operations that exist, and no import of its own."""

from __future__ import annotations

import sys

import pytest
import torch

from cuassay.judge import warm_up
from cuassay.model.device import CPU, CUDA


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_operation_runs_and_imports_nothing(dtype: torch.dtype) -> None:
    """A thread that imports what the main thread imports too may meet half a module."""
    x = torch.randn(64, 64, dtype=dtype)
    y = torch.rand(64, 64, dtype=dtype) + 1.0
    before = set(sys.modules)
    for use in warm_up._ON_NUMBERS:
        use(x, y)
    assert set(sys.modules) == before


def test_a_cpu_is_not_warmed_up() -> None:
    assert warm_up.begin_warm_up(CPU) is None


def test_a_device_that_is_not_there_is_told_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("no device")

    monkeypatch.setattr(torch, "ones", refuses)
    thread = warm_up.begin_warm_up(CUDA)
    assert thread is not None
    thread.join(60.0)
    assert not thread.is_alive()
