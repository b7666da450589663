"""The kernel that keeps multiprocessors busy is compiled for the device that is there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from cuassay.sandbox.guest.callers import hog


def test_the_kernel_is_compiled_for_the_architecture_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []

    def compile_cubin(source: str, *, arch: str) -> bytes:
        asked.append((source, arch))
        return b"a cubin"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(hog, "compile_cubin", compile_cubin)
    loaded = SimpleNamespace(function=lambda cubin, name: len(cubin + name.encode()))
    monkeypatch.setattr(hog, "load_driver", lambda number: loaded)
    hog._kernel.cache_clear()
    try:
        assert hog._kernel() == len(b"a cubin" + b"cuassay_hog")
    finally:
        hog._kernel.cache_clear()
    ((source, arch),) = asked
    assert arch == "sm_90"
    assert "cuassay_hog" in source
