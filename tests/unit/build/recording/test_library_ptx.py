"""Launches of a library that nvcc built are kept with PTX and arguments; the machine executes them.

No GPU takes part: the runtime's launch function is replaced by one that computes on the host.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from cuassay.build.cuda.binaries import find_cuobjdump, ptx_in
from cuassay.build.machine.replay import execute
from cuassay.build.recording.gpu_memory import Allocation, TorchMemory
from cuassay.build.recording.library_launches import LibraryLaunch, lead, release
from cuassay.build.recording.library_ptx import record_library_launch
from cuassay.build.recording.recorder import LaunchRecorder, Wish
from cuassay.model.recording import Recording

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(
    shutil.which("nvcc") is None or not find_cuobjdump(), reason="needs nvcc and cuobjdump"
)
_NAME = "_Z5scalePKfPffi"
_SOURCE = """
__global__ void scale(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i LIMIT n) y[i] = a * x[i];
}
extern "C" void go(const float* x, float* y, float a, int n) {
    scale<<<dim3((n + 63) / 64), dim3(64)>>>(x, y, a, n);
}
"""
_CODES = {"with": "[sm_90,compute_90]", "without": "sm_90"}
_COUNT = 100


class _Known(TorchMemory):
    """The memory of some tensors on the host, found by address as a GPU's is."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        super().__init__()
        self._tensors = tensors

    def at(self, address: int) -> Allocation | None:
        """Return the tensor that an address lies in."""
        found = (self.of(tensor, f"tensor {n}") for n, tensor in enumerate(self._tensors))
        return next((one for one in found if one and one.base <= address < one.end), None)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    folder = tmp_path_factory.mktemp("libraries")

    def made(limit: str, ptx: str) -> Path:
        name = f"lib{len(limit)}{ptx}"
        source, library = folder / f"{name}.cu", folder / f"{name}.so"
        source.write_text(_SOURCE.replace("LIMIT", limit))
        if not library.exists():
            code = f"-gencode=arch=compute_90,code={_CODES[ptx]}"
            command = ["nvcc", code, "-Xcompiler", "-fPIC", "-shared", "-cudart", "shared"]
            subprocess.run([*command, str(source), "-o", str(library)], check=True)
        return library

    return made


def recorded(library: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Return the recording of a call of `go`; what the GPU would compute is computed here."""
    monkeypatch.setattr(LibraryLaunch, "kernel", lambda self: _NAME)
    x, y = torch.arange(_COUNT, dtype=torch.float32), torch.zeros(_COUNT)
    recorder = LaunchRecorder(Wish(), _Known(x, y))

    def on_the_host() -> int:
        torch.mul(x, 3.0, out=y)
        return 0

    def through(go: Callable[[], int], asked: LibraryLaunch | None) -> int:
        assert asked is not None
        assert (asked.grid, asked.block, asked.shared_bytes) == ((2, 1, 1), (64, 1, 1), 0)
        describe = partial(record_library_launch, recorder, asked)
        return describe(on_the_host)

    calls = ctypes.CDLL(str(library))
    assert lead(library, through) > 0
    try:
        calls.go(
            ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_float(3.0),
            ctypes.c_int(_COUNT),
        )  # fmt: skip
    finally:
        release(library)
    assert torch.equal(y, 3 * x)
    return recorder.recording()


@pytest.mark.parametrize(("limit", "faults"), [("<", set()), ("<=", {"out-of-bounds"})])
def test_the_machine_executes_what_a_library_launched(
    build: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, limit: str, faults: set[str]
) -> None:
    recording = recorded(build(limit, "with"), monkeypatch)
    assert not recording.left_out, recording.notes
    (launch,) = recording.launches
    assert launch.kernel == _NAME
    assert launch.arguments[2:] == (b"\0\0\x40\x40", _COUNT.to_bytes(4, "little"))
    evidence = execute(recording, {})
    assert {fault.kind for _, fault in evidence.faults} == faults
    agreement = evidence.launches[0].agreement
    if not faults:
        assert agreement
        assert sum(one.equal for one in agreement) == sum(one.nbytes for one in agreement)


def test_a_library_without_ptx_launches_and_is_named(
    build: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build("<", "without")
    assert ptx_in(library) == []
    recording = recorded(library, monkeypatch)
    assert (recording.launches, recording.left_out) == ((), 1)
    assert "carries no PTX" in recording.notes[0]
