"""Kernels with pauses run while they are wanted, and the ones from before run again after."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.build.cuda import perturbation, raw_kernel
from cuassay.build.cuda.perturbation import active, perturbed
from cuassay.build.recording import ledger as launch_ledger
from cuassay.build.recording.ledger import Ledger
from cuassay.model.device import CPU
from tests.support.builds import problem
from tests.support.compiler_apart import compiler_apart
from tests.support.ptx_kernels import compiled, module_of
from tests.unit.build.cuda.test_raw_kernel import FakeLauncher, raw

PTX = (
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry scale()\n{\n"
    "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1], %r1;\nret;\n}\n"
)


class Loader(FakeLauncher):
    """Keeps what it loads; every module's kernel has a handle of its own."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__()
        self.loaded: list[bytes] = []
        self.refuses = refuses

    def function(self, cubin: bytes, name: str) -> int:
        if self.refuses and b"nanosleep" in cubin:
            raise RuntimeError("the provided PTX was compiled with an unsupported toolchain")
        if cubin not in self.loaded:
            self.loaded.append(cubin)
        return 100 + self.loaded.index(cubin)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: stream)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    fresh = Ledger()
    for module in (launch_ledger, perturbation, raw_kernel):
        monkeypatch.setattr(module, "LEDGER", fresh)
    return fresh


def bound(launcher: Loader, ptx: str = PTX) -> Any:
    return raw_kernel.bind(
        raw(), problem(), device=CPU, cubin=b"cubin", launcher=launcher, ptx=lambda: ptx
    )


def test_raw_kernels_are_loaded_with_pauses_once_and_put_back(ledger: Ledger) -> None:
    launcher = Loader()
    call = bound(launcher)
    call(torch.ones(3, 8), 2.0)
    with perturbed(11) as found:
        for _ in range(3):
            call(torch.ones(3, 8), 2.0)
        assert set(found.kernels) == {"scale"}
    call(torch.ones(3, 8), 2.0)
    assert [launch[0] for launch in launcher.launches] == [100, 101, 101, 101, 100]
    assert b"nanosleep" in launcher.loaded[1]
    assert launcher.loaded[1].endswith(b"\0")
    assert active() is None


def test_a_driver_that_refuses_the_text_leaves_the_kernel_as_it_was(ledger: Ledger) -> None:
    launcher = Loader(refuses=True)
    call = bound(launcher)
    with perturbed(11) as found:
        call(torch.ones(3, 8), 2.0)
    assert found.kernels == {}
    assert "unsupported toolchain" in found.refused
    assert [launch[0] for launch in launcher.launches] == [100]


def test_it_ends_with_an_exception_too(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="candidate"), perturbed(1):
        raise ValueError("of the candidate")
    assert active() is None


class Compiled:
    """A Triton function as far as the ledger and the perturbation know it."""

    def __init__(self) -> None:
        self.made = 0
        self.device_caches: Any = defaultdict(self.create_binder)

    def create_binder(self) -> int:
        self.made += 1
        return self.made


@compiler_apart
def test_triton_functions_compile_anew_and_keep_what_they_had(ledger: Ledger) -> None:
    pytest.importorskip("triton.backends.nvidia.compiler")
    function = Compiled()
    ledger.compiles(function)
    assert function.device_caches[0] == 1
    with perturbed(1):
        assert function.device_caches[0] == 2
    assert function.device_caches[0] == 1


@pytest.fixture
def triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@compiler_apart
def test_triton_assembles_with_pauses_and_keeps_its_cache_clean(
    ledger: Ledger, triton_cache: Path, tmp_path: Path
) -> None:
    module = module_of(tmp_path)
    plain = compiled(module, "row_sums").asm["cubin"]
    function = Compiled()  # the ledger knows of a kernel: caches are put aside
    ledger.compiles(function)
    with perturbed(4) as found:
        slowed = compiled(module, "row_sums").asm["cubin"]
    assert set(found.kernels) == {"row_sums"}
    assert slowed != plain
    assert compiled(module, "row_sums").asm["cubin"] == plain


@compiler_apart
def test_what_triton_compiled_is_assembled_anew_from_its_ptx(
    ledger: Ledger, triton_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = pytest.importorskip("triton.compiler.compiler")
    loaded: list[tuple[bytes, str]] = []

    def load(kernel: Any) -> None:
        loaded.append((kernel.kernel, os.environ["TRITON_CACHE_DIR"]))
        kernel.function = len(loaded)

    monkeypatch.setattr(compiler.CompiledKernel, "_init_handles", load)
    plain = compiled(module_of(tmp_path), "row_sums")
    function = Compiled()
    function.device_caches[0] = ({"key": plain, "strange": object()}, "binder")
    ledger.compiles(function)
    with perturbed(4) as found:
        kernels, binder = function.device_caches[0]
        slowed = kernels.get("key", None)
        assert kernels.get("key", None) is slowed  # assembled once
        assert kernels.get("strange", None) is None  # Triton compiles these two
        assert kernels.get("other", None) is None
        assert os.environ["TRITON_CACHE_DIR"] != str(triton_cache)
    assert binder == "binder"
    assert set(found.kernels) == {"row_sums"}
    # Its launcher is one that was built before.
    assert loaded == [(slowed.kernel, str(triton_cache))]
    assert slowed.kernel != plain.kernel
    assert (slowed.function, plain.function) == (1, None)
    assert slowed.metadata is plain.metadata
    assert function.device_caches[0][0]["key"] is plain
