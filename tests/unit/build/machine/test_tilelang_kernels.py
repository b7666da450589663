"""TileLang is led to its backend that calls the driver, whatever a candidate asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cuassay.build.machine import tilelang_kernels
from cuassay.errors import MissingToolError


class _Module:
    """What resolves a backend by its name."""

    def resolve_execution_backend(self, requested: str | None, target: Any) -> str | None:
        return requested


@pytest.fixture
def tilelang(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """TileLang's modules as far as they are replaced."""
    found: dict[str, Any] = {
        "tilelang": ModuleType("tilelang"),
        "tilelang.contrib.nvrtc": SimpleNamespace(get_target_compute_version=lambda one: one),
        "tilelang.cuda.target": SimpleNamespace(
            check_cuda_availability=lambda: False, _detect_torch_cuda_arch=lambda: "sm_90a"
        ),
        "tilelang.backend.module": SimpleNamespace(BackendModule=type("Own", (_Module,), {})),
    }
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setenv("TILELANG_CACHE_DIR", "as it was")  # restored afterwards
    return found


@pytest.mark.parametrize(
    ("kind", "requested", "taken"),
    [
        ("cuda", None, "nvrtc"),
        ("cuda", "tvm_ffi", "nvrtc"),
        ("cuda", "cutedsl", "cutedsl"),
        ("c", "cython", "cython"),
    ],
)
def test_kernels_for_cuda_are_launched_by_the_driver(
    tilelang: dict[str, Any], tmp_path: Path, kind: str, requested: str | None, taken: str
) -> None:
    tilelang_kernels.enable(arch=90, folder=tmp_path / "made")
    target = SimpleNamespace(kind=SimpleNamespace(name=kind))
    module = tilelang["tilelang.backend.module"].BackendModule()
    assert module.resolve_execution_backend(requested, target) == taken


def test_the_architecture_is_that_of_the_trial_where_no_target_says_another(
    tilelang: dict[str, Any], tmp_path: Path
) -> None:
    tilelang_kernels.enable(arch=100, folder=tmp_path)
    version = tilelang["tilelang.contrib.nvrtc"].get_target_compute_version
    assert (version(), version("8.0")) == ("10.0", "8.0")
    assert tilelang["tilelang.cuda.target"].check_cuda_availability()


def test_another_interface_is_named(tilelang: dict[str, Any], tmp_path: Path) -> None:
    del tilelang["tilelang.contrib.nvrtc"].get_target_compute_version
    with pytest.raises(MissingToolError, match=r"install tilelang 0\.1\.15"):
        tilelang_kernels.enable(arch=90, folder=tmp_path)


@pytest.mark.parametrize(("arch", "name"), [(80, "sm_80"), (90, "sm_90a")])
def test_kernels_are_written_for_the_architecture_that_they_are_compiled_for(
    tilelang: dict[str, Any], tmp_path: Path, arch: int, name: str
) -> None:
    tilelang_kernels.enable(arch=arch, folder=tmp_path)
    assert tilelang["tilelang.cuda.target"]._detect_torch_cuda_arch() == name
