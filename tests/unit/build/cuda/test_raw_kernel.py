"""Raw kernels: arguments, launches, compilers. The device is a fake; the compiler is real."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cuassay import build
from cuassay.build.cuda import nvrtc, raw_kernel, toolkit
from cuassay.build.cuda.driver import NOT_FOUND, OUT_OF_MEMORY, DriverError, Parameter
from cuassay.build.cuda.tile_maps import Encoded
from cuassay.build.machine import candidates as machine
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import Candidate, Convention, Language, Launch, Scratch, TileMap
from cuassay.model.device import CPU
from tests.support.builds import candidate, problem

SOURCE = """
#include <stdint.h>
#include "half.cuh"
extern "C" __global__ void scale(const float* x, float* y, float factor, int64_t count) {
    int64_t index = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (index < count) y[index] = half_of(x[index]) * 2 * factor;
}
"""
HEADER = "#pragma once\n__device__ inline float half_of(float v) { return 0.5f * v; }\n"
LAUNCH = Launch(
    kernel="scale",
    grid=("-(-rows * half // 4)", "1", "1"),
    block=("128", "1", "1"),
    arguments=("x", "y", "factor", "rows * hidden", "half:int32", "spare"),
    shared_bytes="hidden * 4",
)


class FakeLauncher:
    """Records launches; knows one kernel, and fails to load any with a status."""

    def __init__(self, *, status: int = 0) -> None:
        self.status = status
        self.launches: list[tuple[object, ...]] = []
        self.clusters: list[tuple[int, int, int]] = []
        self.maps: list[Encoded] = []

    def function(self, cubin: bytes, name: str) -> int:
        if self.status:
            raise DriverError(f"CUDA error: returned {self.status}", status=self.status)
        if name != "scale":
            raise DriverError("named symbol not found", status=NOT_FOUND)
        return 5

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        shared_bytes: int,
        stream: int,
        arguments: Sequence[Parameter],
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        values = [(type(item).__name__, getattr(item, "value", bytes(item))) for item in arguments]
        self.launches.append((function, grid, block, shared_bytes, stream, values))
        self.clusters.append(cluster)

    def tensor_map(self, one: Encoded) -> bytes:
        self.maps.append(one)
        return bytes(range(128))


def raw(**changes: object) -> Candidate:
    base = candidate(SOURCE, HEADER, paths=("k.cu", "half.cuh"), language=Language.CUDA_KERNEL)
    scratch = (Scratch(name="spare", dtype="int64", size="rows"),)
    fields: dict[str, object] = {"launches": (LAUNCH,), "scratch": scratch, **changes}
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(cuda_stream=77)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: stream)


def test_a_tensor_map_is_encoded_for_the_tensor_of_each_call() -> None:
    launcher = FakeLauncher()
    tile = TileMap(name="tile", tensor="x", box=("rows", "4"), swizzle=32, nan_fill=True)
    launch = dataclasses.replace(LAUNCH, arguments=("tile", "y"), cluster=("2", "1", "1"))
    case = raw(launches=(launch,), tile_maps=(tile,))
    call = raw_kernel.bind(case, problem(), device=CPU, cubin=b"", launcher=launcher)
    x = torch.ones(3, 8)
    call(x, 2.0)
    (one,) = launcher.maps
    assert (one.address, one.element) == (x.data_ptr(), "f32")
    assert (one.sizes, one.strides, one.box) == ((8, 3), (32,), (4, 3))
    assert (one.swizzle, one.nan_fill) == (32, True)
    assert launcher.clusters == [(2, 1, 1)]
    values = launcher.launches[0][5]
    assert values[0][1] == bytes(range(128))  # type: ignore[index]


def test_launch_gets_evaluated_arguments() -> None:
    launcher = FakeLauncher()
    call = raw_kernel.bind(raw(), problem(), device=CPU, cubin=b"", launcher=launcher)
    x = torch.ones(3, 8)
    y = call(x, 2.0)
    assert isinstance(y, torch.Tensor)
    assert y.shape == (3, 8)
    ((function, grid, block, shared, stream, values),) = launcher.launches
    assert (function, grid, block, shared, stream) == (5, (3, 1, 1), (128, 1, 1), 32, 77)
    assert isinstance(values, list)
    kinds = [kind for kind, _ in values]
    assert kinds[2:5] == ["c_float", "c_long", "c_int"]
    assert [value for _, value in values[:5]] == [x.data_ptr(), y.data_ptr(), 2.0, 24, 4]


def test_destination_outputs_are_cleared_on_request() -> None:
    launcher = FakeLauncher()
    chosen = raw(convention=Convention.DESTINATION, zero_outputs=True)
    call = raw_kernel.bind(chosen, problem(), device=CPU, cubin=b"", launcher=launcher)
    y = torch.full((2, 8), 9.0)
    assert call(torch.ones(2, 8), 1.0, y) is None
    assert y.sum() == 0.0


def test_empty_grid_launches_nothing() -> None:
    launcher = FakeLauncher()
    call = raw_kernel.bind(raw(), problem(), device=CPU, cubin=b"", launcher=launcher)
    call(torch.ones(0, 8), 1.0)
    assert launcher.launches == []


def test_wrong_number_of_arguments_names_them() -> None:
    call = raw_kernel.bind(raw(), problem(), device=CPU, cubin=b"", launcher=FakeLauncher())
    with pytest.raises(TypeError, match=r"expected 2 arguments \(x, factor\), got 1"):
        call(torch.ones(1, 8))


def test_kernel_that_the_source_lacks_is_a_build_error() -> None:
    wrong = raw(launches=(dataclasses.replace(LAUNCH, kernel="other"),))
    with pytest.raises(BuildError, match='declare it extern "C" __global__'):
        raw_kernel.bind(wrong, problem(), device=CPU, cubin=b"", launcher=FakeLauncher())


def test_a_full_device_is_no_build_error() -> None:
    with pytest.raises(DriverError) as raised:
        raw_kernel.bind(
            raw(), problem(), device=CPU, cubin=b"", launcher=FakeLauncher(status=OUT_OF_MEMORY)
        )
    assert raised.value.status == OUT_OF_MEMORY


def test_a_cubin_that_the_driver_refuses_gets_no_hint_on_names() -> None:
    with pytest.raises(BuildError, match=r"cannot be loaded$") as raised:
        raw_kernel.bind(raw(), problem(), device=CPU, cubin=b"", launcher=FakeLauncher(status=209))
    assert "returned 209" in raised.value.log


def test_own_headers_are_inlined_once(tmp_path: Path) -> None:
    text = raw_kernel.inline_sources(raw(), tmp_path)
    assert text.count("half_of(float v)") == 1
    assert "#include <stdint.h>" in text


def test_hopper_instructions_ask_for_the_hopper_architecture() -> None:
    assert toolkit.hopper_arch("sm_90", 'asm("wgmma.fence")') == "sm_90a"
    assert toolkit.hopper_arch("sm_90", "plain") == "sm_90"
    assert toolkit.hopper_arch("sm_80", "wgmma") == "sm_80"


def test_without_a_gpu_raw_kernels_need_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_NEEDED", ("no_such_package",))
    with pytest.raises(MissingToolError, match=r"pip install 'cuassay\[machine\]'"):
        build.load(raw(), problem(), device=CPU, folder=tmp_path)


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@needs_nvcc
def test_nvcc_makes_a_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_CUDA_COMPILER", "nvcc")
    source = raw_kernel.inline_sources(raw(), tmp_path)
    assert nvrtc.compile_cubin(source, arch="sm_90")[:4] == b"\x7fELF"


@needs_nvcc
def test_compiler_log_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_CUDA_COMPILER", "nvcc")
    with pytest.raises(BuildError, match="does not compile") as info:
        nvrtc.compile_cubin("__global__ void k() { nothing; }", arch="sm_90")
    assert "nothing" in info.value.log


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="libnvrtc is not installed")
def test_nvrtc_makes_a_cubin(tmp_path: Path) -> None:
    source = raw_kernel.inline_sources(raw(), tmp_path)
    assert nvrtc.compile_cubin(source, arch="sm_90")[:4] == b"\x7fELF"


def test_no_compiler_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: None)
    monkeypatch.setattr("cuassay.build.cuda.toolkit.cuda_home", lambda: None)
    with pytest.raises(MissingToolError, match=r"CUDA_HOME.*nvcc.*pip install nvidia-cuda-nvcc"):
        nvrtc.compile_cubin("", arch="sm_90")
