"""Triton kernels for sm_90 that copy tiles by TMA run in the machine: right and clean."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("numba")
from tests.machine.triton_corpus import CASES
from tests.machine.triton_running import executed_triton
from tests.support.compiler_apart import compiler_apart

_NAMES = ("triton_descriptor_scale", "triton_host_descriptor_matmul")
_CASES = [one for one in CASES if one.name in _NAMES]


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


@pytest.mark.parametrize("case", _CASES, ids=lambda one: one.name)
@compiler_apart
def test_descriptors_of_the_device_and_of_the_host(case: object) -> None:
    outcome = executed_triton(case)  # type: ignore[arg-type]
    assert outcome.refused == ""
    assert outcome.texts == ()
    assert outcome.mistakes == ()
