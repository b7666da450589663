"""CuTe DSL wrappers on CPU tensors: compiled for an architecture, run in the PTX machine."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cuassay.build.cuda.tile_maps import Encoded, machine_bytes
from cuassay.build.machine import cute_kernels
from tests.support.paths import python_path

pytest.importorskip("numba")
# The DSL's own runtime is replaced: for a process of its own.
_SCRIPT = """
import sys
from pathlib import Path
import torch
from cuassay.build.cuda_facade import answer_for, cuda_facade
from cuassay.build.machine import cute_kernels
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena

folder, failing = Path(sys.argv[1]), sys.argv[2] == "fails"
seen, machine = [], MachineLauncher(arena=StorageArena())

def launch(ptx, entry, **options):
    seen.append((ptx, entry, options))
    if failing:
        raise RuntimeError("the launch failed here")
    machine(ptx, entry, **options)

answer_for(100)
cute_kernels.enable(launch, arch=100, multiprocessors=4, folder=folder / "ptx")
sys.path.insert(0, str(folder))
import scaled

x, y = torch.arange(300, dtype=torch.float32), torch.zeros(300)
machine.arena.add(x, "x")
machine.arena.add(y, "y")
with cuda_facade():
    scaled.scale(x, y, 3.0)
ptx, entry, options = seen[0]
assert ".target sm_100a" in ptx and f".entry {entry}(" in ptx
assert "scaled.py" in ptx and ".loc" in ptx
assert options["grid"] == (3, 1, 1) and options["block"] == (128, 1, 1), options
assert options["cluster"] == (1, 1, 1), options
assert torch.equal(y, 3 * x)
print("done")
"""
_SCALED = """
import sys

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor, factor: cutlass.Float32, count: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 128 + thread
    if at < count:
        y[at] = x[at] * factor


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor, factor: cutlass.Float32, count: cutlass.Int32):
    kernel(x, y, factor, count).launch(grid=[(count + 127) // 128, 1, 1], block=[128, 1, 1])


if "tvm" in sys.argv[3:]:
    size, launched = cute.sym_int64(), []

    def scale(x, y, factor):
        one = cute.runtime.make_fake_tensor(cutlass.Float32, (size,), stride=(1,))
        if not launched:
            compiled = cute.compile(
                host, one, one, cutlass.Float32(0), cutlass.Int32(0), options="--enable-tvm-ffi"
            )
            launched.append(compiled)
        launched[0](x, y, factor, x.numel())
        y.zero_()
        launched[0](x, y, factor, x.numel())  # its library is loaded
else:

    def scale(x, y, factor):
        given = [from_dlpack(one).mark_layout_dynamic() for one in (x, y)]
        host(*given, cutlass.Float32(factor), cutlass.Int32(x.numel()))
"""


def _run(folder: Path, *how: str) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("cutlass") is None:
        pytest.skip("no nvidia-cutlass-dsl")
    if "tvm" in how and importlib.util.find_spec("tvm_ffi") is None:
        pytest.skip("no apache-tvm-ffi")
    (folder / "scaled.py").write_text(_SCALED)
    root = Path(__file__).resolve().parents[4]
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(folder), *how],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(root / "src", root)},
    )


@pytest.mark.parametrize("how", [(), ("tvm",)])
def test_a_kernel_is_compiled_for_sm_100_and_its_launch_is_executed(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    done = _run(tmp_path, "runs", *how)
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.parametrize("how", [(), ("tvm",)])
def test_what_a_launch_raises_comes_out_of_the_call(tmp_path: Path, how: tuple[str, ...]) -> None:
    done = _run(tmp_path, "fails", *how)
    assert done.stderr.rstrip().endswith("RuntimeError: the launch failed here")


def _encode(runtime: cute_kernels._Runtime, interleave: int) -> bytes:
    """Return the bytes of a tensor map of float16 [16, 64] that host code has encoded."""
    place = (ctypes.c_uint8 * 128)()
    sizes, strides = (ctypes.c_uint64 * 2)(64, 16), (ctypes.c_uint64 * 1)(128)
    box, steps = (ctypes.c_uint32 * 2)(64, 8), (ctypes.c_uint32 * 2)(1, 1)
    at = [ctypes.addressof(one) for one in (sizes, strides, box, steps)]
    status = runtime._cuTensorMapEncodeTiled(
        ctypes.addressof(place), 6, 2, 4096, *at, interleave, 3, 0, 0
    )
    assert status == 0  # the DSL ends the process otherwise
    return bytes(place)


def test_a_tensor_map_that_host_code_encodes_is_the_machines() -> None:
    runtime = cute_kernels._Runtime(launch=lambda *_, **__: None)
    raw = _encode(runtime, 0)
    assert raw == machine_bytes(
        Encoded(
            address=4096, element="f16", sizes=(64, 16), strides=(128,), box=(64, 8), steps=(1, 1),
            swizzle=128,
        )
    )  # fmt: skip
    assert runtime.maps == {raw: ""}


def test_a_tensor_map_that_is_not_known_is_named_at_its_launch() -> None:
    runtime = cute_kernels._Runtime(launch=lambda *_, **__: None)
    first, second = _encode(runtime, 1), _encode(runtime, 1)
    assert first != second
    assert all("interleave 1" in why for why in runtime.maps.values())


def test_a_tensor_of_a_cpu_says_that_it_lies_on_a_gpu() -> None:
    """The DSL gives it the address space of global memory then, which some copies demand."""
    capsule = torch.arange(3.0).__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    at = pointer(capsule, b"dltensor")
    kinds = []
    for _ in range(2):
        kinds.append(ctypes.c_int32.from_address(at + 8).value)
        cute_kernels._say_device(capsule)
    assert kinds == [1, 2]
    cute_kernels._say_device(object())
