"""CUDA's driver without a GPU: what packages find by name, and what it does on memory here."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.build.machine import driver_api
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena
from cuassay.catalog import registry
from cuassay.errors import MissingToolError
from tests.support.paths import python_path
from tests.zoo.judging import Gate

pytest.importorskip("numba")
_EXAMPLES = Path(__file__).resolve().parents[4] / "examples" / "languages"
_PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 count) {
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    add.u32 %r3, %r3, %r3;
    st.global.u32 [%rd3], %r3;
done:
    ret;
}
"""


class _Driver:
    """The functions by name, on ctypes objects instead of addresses."""

    def __init__(self) -> None:
        self.launcher = MachineLauncher(arena=StorageArena())
        self._table = driver_api.answers(self.launcher, arch=90, multiprocessors=4)

    def __call__(self, name: str, *given: Any) -> int:
        words = [one if isinstance(one, int) else ctypes.addressof(one) for one in given]
        status: int = self._table[name](*words)
        return status

    def word(self, name: str, *given: Any) -> int:
        """Call a function that writes a word first."""
        place = ctypes.c_uint64()
        assert self(name, place, *given) == 0
        return place.value

    def kernel(self) -> int:
        """Load `twice`."""
        module = self.word("cuModuleLoadData", ctypes.create_string_buffer(_PTX.encode()))
        return self.word("cuModuleGetFunction", module, ctypes.create_string_buffer(b"twice"))

    def launch(self, kernel: int, x: int, count: int, *, shared_bytes: int = 0) -> int:
        """Launch `twice` on 32 threads."""
        values = ctypes.c_uint64(x), ctypes.c_uint32(count)
        places = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
        return self("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, shared_bytes, 0, places, 0)


def test_a_kernel_is_launched_on_memory_of_the_driver() -> None:
    driver = _Driver()
    given = (ctypes.c_uint32 * 5)(1, 2, 3, 4, 5)
    x = driver.word("cuMemAlloc", 20)
    assert driver("cuMemcpyHtoD", x, given, 20) == 0
    assert driver.launch(driver.kernel(), x, 5) == 0
    assert driver("cuMemcpyDtoH", given, x, 20) == 0
    assert list(given) == [2, 4, 6, 8, 10]
    assert driver("cuMemFree", x) == 0
    assert driver("cuMemFree", x) != 0


def test_what_nobody_wrote_is_unwritten_and_a_fill_writes_it() -> None:
    driver = _Driver()
    x = driver.word("cuMemAlloc", 128)
    kernel = driver.kernel()
    driver.launcher.recorder.start()
    assert driver.launch(kernel, x, 32) == 0
    assert driver("cuMemsetD32Async", x, 7, 32) == 0
    assert driver.launch(kernel, x, 32) == 0
    first, second = driver.launcher.recorder.recording().launches
    assert first.written[0] == bytes(16)  # bits of bytes
    assert not second.written
    assert second.contents[0] == (7).to_bytes(4, "little") * 32


def test_more_shared_memory_than_the_default_has_to_be_asked_for() -> None:
    driver = _Driver()
    x, kernel = driver.word("cuMemAlloc", 128), driver.kernel()
    assert driver("cuMemsetD8", x, 0, 128) == 0
    assert driver.launch(kernel, x, 1, shared_bytes=100_000) != 0
    assert driver("cuKernelSetAttribute", 8, 100_000, kernel) == 0
    assert driver.launch(kernel, x, 1, shared_bytes=100_000) == 0


def test_machine_code_and_packed_arguments_are_named() -> None:
    driver = _Driver()
    with pytest.raises(MissingToolError, match="machine code"):
        driver("cuModuleLoadData", ctypes.c_uint64(), ctypes.create_string_buffer(b"\x7fELF"))
    with pytest.raises(MissingToolError, match="packed"):
        driver("cuLaunchKernel", driver.kernel(), 1, 1, 1, 1, 1, 1, 0, 0, 0, 1)


def test_parameters_of_a_kernel_are_told() -> None:
    driver = _Driver()
    kernel, offset, nbytes = driver.kernel(), ctypes.c_uint64(), ctypes.c_uint64()
    assert driver("cuKernelGetParamInfo", kernel, 1, offset, nbytes) == 0
    assert (offset.value, nbytes.value) == (8, 4)
    assert driver("cuKernelGetParamInfo", kernel, 2, offset, nbytes) != 0
    assert driver.word("cuKernelGetLibrary", kernel) == 1


def test_the_device_is_of_the_architecture() -> None:
    driver, value = _Driver(), ctypes.c_int()
    found = []
    for attribute in (75, 76, 16, 97):
        assert driver("cuDeviceGetAttribute", value, attribute) == 0
        found.append(value.value)
    assert found == [9, 0, 4, 227 << 10]


def test_events_take_the_time_between_their_records() -> None:
    driver, elapsed_ms = _Driver(), ctypes.c_float()
    start, end = driver.word("cuEventCreate"), driver.word("cuEventCreate")
    assert driver("cuEventElapsedTime", elapsed_ms, start, end) != 0
    assert driver("cuEventRecord", start) == driver("cuEventRecord", end) == 0
    assert driver("cuEventElapsedTime", elapsed_ms, start, end) == 0
    assert elapsed_ms.value >= 0


# What a package does, by cuda.bindings alone: in a process of its own, whose bindings are led here.
_CANDIDATE = '''
import ctypes
import torch
from cuda.bindings import driver, nvrtc

SOURCE = r"""extern "C" __global__ void scale(const float* x, float* y, float factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = factor * x[i];
}
"""


def scale(x, factor):
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"scale.cu", 0, [], [])
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])[0]) == 0
    cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, cubin)
    _, module = driver.cuModuleLoadData(cubin)
    _, kernel = driver.cuModuleGetFunction(module, b"scale")
    y = torch.empty_like(x)
    given = (x.data_ptr(), y.data_ptr(), factor, x.numel())
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int)
    status = driver.cuLaunchKernel(kernel, 2, 1, 1, 128, 1, 1, 0, 0, (given, kinds), 0)[0]
    assert int(status) == 0, status
    return y
'''
_SCRIPT = """
import sys
from pathlib import Path
import torch
from cuassay.build.machine import driver_api
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena

machine = MachineLauncher(arena=StorageArena())
text = Path(sys.argv[1], "scale.py").read_text()
machine.recorder.sources = {"scale.py": text}
driver_api.enable(machine, arch=90, multiprocessors=4)
sys.path.insert(0, sys.argv[1])
import scale

x = torch.arange(200.0)
machine.recorder.start()
with machine.arena.watching({"x": x}, (), machine.recorder), machine.answered():
    y = scale.scale(x, 3.0)
assert torch.equal(y, 3 * x)
(ptx,) = machine.recorder.recording().modules
assert ".target sm_90" in ptx and "scale.py" in ptx, ptx
print("done")
"""


def test_a_package_that_calls_cuda_bindings_launches_here(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    (tmp_path / "scale.py").write_text(_CANDIDATE)
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(root / "src", root)},
    )
    assert done.stdout.endswith("done\n"), done.stderr


def test_what_a_launch_raises_comes_out_of_the_call() -> None:
    launcher = MachineLauncher(arena=StorageArena())

    def call(failure: Exception | None, raised: Exception | None) -> None:
        with launcher.answered():
            launcher.failure = failure
            if raised is not None:
                raise raised

    with pytest.raises(ValueError, match="the launch"):
        call(ValueError("the launch failed"), RuntimeError("what the package says of it"))
    with pytest.raises(ValueError, match="the launch"):
        call(ValueError("the launch failed"), None)
    with pytest.raises(KeyError):
        call(None, KeyError())
    call(None, None)


# What a language needs, and how its example is made a kernel with another gate.
_LANGUAGES = {
    "cuda_core": ("cuda.core", "expf(-g)", "expf(0.1f - g)"),
    "numba": ("numba_cuda", "math.exp(-g)", "math.exp(0.1 - g)"),
    "tilelang": ("tilelang", "T.exp(-g)", "T.exp(0.1 - g)"),
}


@pytest.mark.parametrize("name", _LANGUAGES)
def test_the_example_is_accepted_and_a_kernel_with_another_gate_is_not(
    name: str, tmp_path: Path
) -> None:
    module, right, wrong = _LANGUAGES[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"no {module}")
    example = _EXAMPLES / f"swiglu_{name}.py"
    text = example.read_text()
    assert right in text
    broken = tmp_path / example.name
    broken.write_text(text.replace(right, wrong))
    with Gate("cpu", machine=True) as gate:
        found = gate.judge(registry.get("swiglu"), example, only=("NUM001", "MEM101"))
        wrong_one = gate.judge(registry.get("swiglu"), broken, only=("NUM001",))
    assert found.accepted, str(found)
    launches = found.verdict.launches
    assert launches.judged == launches.made > 0
    assert wrong_one.codes == ("NUM001",)


def test_kernels_of_numba_name_the_package_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match="pip install numba-cuda"):
        driver_api.enable_numba()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "numba.cuda.cudadrv.driver", None)  # lacks what it needs
    with pytest.raises(MissingToolError, match="need all of numba-cuda"):
        driver_api.enable_numba()


def test_an_array_of_cuda_is_described_as_it_lies() -> None:
    from cuassay.build.cuda_facade import cuda_facade

    x = torch.arange(6.0).view(2, 3)
    with cuda_facade():
        whole, turned = x.__cuda_array_interface__, x.t().__cuda_array_interface__
    assert whole == {
        "typestr": "<f4", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False),
        "version": 2,
    }  # fmt: skip
    assert turned["strides"] == (4, 12)
    assert not hasattr(x, "__cuda_array_interface__")
