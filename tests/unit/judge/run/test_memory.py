"""Whether memory ran out is what the judge sees, on a GPU that others use too."""

from __future__ import annotations

import pytest
import torch

from cuassay.judge.run import memory
from cuassay.model.device import CPU, CUDA
from tests.support.workers import problem, scenario

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "own", "said"),
    [(60, 10, ""), (70, 0, ""), (30, 0, "other processes hold"), (50, 29, ""), (5, 74, "")],
)
def test_a_gpu_that_others_fill_is_short(
    monkeypatch: pytest.MonkeyPatch, free: int, own: int, said: str
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free * _GIB, 80 * _GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: own * _GIB)
    found = memory.shortage(CUDA, scenario(), problem())
    assert (said in found) if said else not found


def test_a_full_device_is_short_whoever_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (_GIB // 2, 80 * _GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 79 * _GIB)
    assert "only 0.5 GiB are free" in memory.shortage(CUDA, scenario(), problem())


def test_the_cpu_is_short_where_the_kernel_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.available_bytes(CPU) > 0
    monkeypatch.setattr(memory, "available_bytes", lambda device: 1 << 20)
    assert "only 0.0 GiB" in memory.shortage(CPU, scenario(), problem())
    monkeypatch.setattr(memory, "available_bytes", lambda device: 100 * _GIB)
    assert memory.shortage(CPU, scenario(), problem()) == ""
