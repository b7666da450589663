"""Where CUDA's tools are found, and what is said where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.build.cuda import toolkit
from cuassay.errors import MissingToolError
from cuassay.model.device import CPU


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("CUDA_HOME", "CUDA_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(toolkit, "pip_folders", lambda: ())
    looked_for = toolkit.cuda_home
    looked_for.cache_clear()
    yield
    looked_for.cache_clear()


def _tool(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_a_variable_names_the_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _tool(tmp_path / "cuda" / "bin" / "nvcc")
    _tool(tmp_path / "cuda" / "include" / "cuda_runtime.h")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert toolkit.find_nvcc() == tmp_path / "cuda" / "bin" / "nvcc"


def test_a_whole_toolkit_comes_before_a_wrapper_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _tool(tmp_path / "bin" / "nvcc")
    whole = tmp_path / "wheels" / "cu13"
    _tool(whole / "bin" / "nvcc")
    (whole / "include" / "cccl").mkdir(parents=True)
    monkeypatch.setattr(toolkit, "pip_folders", lambda: (tmp_path / "wheels",))
    if not Path("/usr/local/cuda/bin/nvcc").is_file():
        assert toolkit.cuda_home() == tmp_path
        toolkit.cuda_home.cache_clear()
        (whole / "include" / "cuda_runtime.h").write_text("")
        assert toolkit.cuda_home() == whole
    assert {whole / "include", whole / "include" / "cccl"} <= set(toolkit.include_folders())


def test_what_is_missing_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "cuda_home", lambda: None)
    with pytest.raises(MissingToolError, match="set CUDA_HOME to a CUDA toolkit"):
        toolkit.find_nvcc()
    with pytest.raises(MissingToolError, match=r"the compiler 'g\+\+' was not found"):
        toolkit.find_host_compiler()
    monkeypatch.setenv("CXX", "clang++-99")
    with pytest.raises(MissingToolError, match=r"'clang\+\+-99'"):
        toolkit.find_host_compiler()


@pytest.mark.parametrize(
    ("arch", "source", "expected"),
    [
        ("sm_90", "wgmma.fence", "sm_90a"),
        ("sm_90", "add.f32", "sm_90"),
        ("sm_80", "wgmma.fence", "sm_80"),
        ("sm_90a", "wgmma.fence", "sm_90a"),
    ],
)
def test_instructions_of_hopper_alone_ask_for_its_architecture(
    arch: str, source: str, expected: str
) -> None:
    assert toolkit.hopper_arch(arch, source) == expected


def test_a_cpu_has_no_architecture_and_names_what_decides_its_builds() -> None:
    assert toolkit.architecture(CPU) == ""
    names = toolkit.toolchain(CPU)
    assert {"python", "torch"} <= names.keys()
    assert "nvcc" not in names
