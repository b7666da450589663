"""Launches recorded on a GPU: replay agrees byte by byte, planted faults are found, twins clean.

`-rP` shows on how many bytes machine and GPU agree.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.zoo.manifest import PAIRS

import cuassay
from cuassay.build.cuda.driver import load_driver
from cuassay.build.machine.replay import execute
from cuassay.model.machine import LaunchEvidence, MachineEvidence
from cuassay.model.recording import Recording, decode
from ptxsan_corpus.hopper_words import WORDS

pytest.importorskip("numba")
pytest.importorskip("triton")
kernels: Any = importlib.import_module("tests.machine.triton_kernels")
more: Any = importlib.import_module("tests.machine.triton_recorded")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
ROOT = Path(__file__).resolve().parents[2]
PLANTED = [
    ("cuda_missing_barrier", "race"),
    ("cuda_last_block_store", "out-of-bounds"),
    ("triton_store_unmasked", "out-of-bounds"),
]


def replayed(path: Path) -> tuple[Recording, MachineEvidence]:
    recording = decode(path.read_bytes())
    return recording, execute(recording, {})


def bytes_of(launch: LaunchEvidence) -> tuple[int, int]:
    """Return on how many of the written bytes machine and GPU agree, and how many there are."""
    assert launch.agreement is not None
    equal = sum(one.equal for one in launch.agreement)
    written = sum(one.nbytes for one in launch.agreement)
    sys.stdout.write(f"{launch.kernel}: {equal} of {written} bytes agree: {launch.agreement}\n")
    return equal, written


def cuassay_run(*words: str, expect: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "cuassay", "run", *words, "--seed", "7", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == expect, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kinds(document: dict[str, Any]) -> set[str]:
    launches = document["evidence"]["launches"]
    return {fault["kind"] for launch in launches for fault in launch["faults"]}


TILES = (
    WORDS
    + """
// cuassay-launch:
// [[tensor_maps]]
// name = "tiles"
// tensor = "x"
// box = [8, 32]
// swizzle = 128
// [[launches]]
// kernel = "scale"
// grid = ["width // 32", "-(-rows // 8)"]
// block = 64
// arguments = ["tiles", "y", "factor", "rows:int32", "width:int32"]
extern "C" __global__ void scale(const __grid_constant__ TensorMap in, float* y, float factor,
                                 int rows, int width) {
    __shared__ alignas(1024) float s[8 * 32];
    __shared__ u64 bar;
    int t = threadIdx.x, x = 32 * blockIdx.x, top = 8 * blockIdx.y;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        bar_expect(&bar, sizeof(s));
        tile_load(s, &in, x, top, &bar);
    }
    bar_wait(&bar, 0);
    for (int i = t; i < 256; i += blockDim.x) {
        int row = i / 32, column = i % 32;
        float value = s[row * 32 + (column ^ ((row & 7) << 2))];
        if (top + row < rows) y[(top + row) * width + x + column] = factor * value;
    }
}
"""
)
PROBLEM = """
from typing import Annotated
import torch
from cuassay import problem, scalar, tensor

@problem(axes={"rows": (1, 4096), "width": 64}, workloads=({"rows": 20},))
def scale(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "width")],
    factor: Annotated[float, scalar("float32", low=0.5, high=2.0, default=1.5)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "width", name="y")]:
    return x * factor
"""


def test_a_programs_launches_agree_and_say_what_nobody_wrote(tmp_path: Path) -> None:
    x = torch.randn(37, 300, device="cuda").bfloat16()
    a, b = (torch.randn(48, 48, device="cuda").half() for _ in range(2))
    kernels.matmul(a, b)  # an autotuner's benchmark writes the result before the launch does
    file = tmp_path / "program.safetensors"
    with cuassay.record_launches(file, unwritten=True) as recorder:
        y = kernels.softmax(x)
        product = kernels.matmul(a, b)
    assert recorder.kept == 2
    assert list(recorder.notes()) == []
    assert torch.allclose(y.float(), torch.softmax(x.float(), 1), atol=1e-2)
    assert torch.allclose(product.float(), a.float() @ b.float(), atol=0.5)
    recording, seen = replayed(file)
    assert [launch.kernel for launch in seen.launches] == ["_softmax", "_matmul"]
    assert seen.faults == ()
    assert "triton_kernels.py" in recording.sources
    names = [region.name for region in recording.launches[0].regions]
    assert names == ["x", "y"]
    assert list(recording.launches[0].written) == [1]
    for launch in seen.launches:
        equal, written = bytes_of(launch)
        assert equal >= 0.9 * written > 0, launch.agreement


def test_memory_behind_a_table_of_pointers_comes_along(tmp_path: Path) -> None:
    given = [torch.randn(8, 8, device="cuda").half() for _ in range(4)]
    file = tmp_path / "table.safetensors"
    with cuassay.record_launches(file):
        kernels.grouped_gemm(*given)
    recording, seen = replayed(file)
    held = {region.base for region in recording.launches[0].regions}
    assert {one.untyped_storage().data_ptr() for one in given} <= held
    assert seen.faults == ()
    equal, written = bytes_of(seen.launches[0])
    assert equal >= 0.9 * written > 0


def test_an_address_that_is_no_tensor_is_found_with_the_driver(tmp_path: Path) -> None:
    x, y = torch.arange(100.0, device="cuda"), torch.zeros(100, device="cuda")
    base = load_driver(0).allocation(x.data_ptr())
    assert base is not None
    assert base[0] <= x.data_ptr() < base[0] + base[1]
    file = tmp_path / "address.safetensors"
    with cuassay.record_launches(file):
        more.from_address(x, y)
    recording, seen = replayed(file)
    sizes = {region.base: region.nbytes for region in recording.launches[0].regions}
    assert sizes == {x.data_ptr(): 400, y.data_ptr(): 400}
    assert seen.faults == ()
    equal, written = bytes_of(seen.launches[0])
    assert equal == written > 0


PROGRAM = """
import sys, torch, triton, triton.language as tl
import cuassay

@triton.jit
def fill(y, n, far, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o.to(tl.int64) + far, o, mask=o <= n)

y = torch.zeros(1000, dtype=torch.int32, device="cuda")
far = int(sys.argv[2])
with cuassay.record_launches(sys.argv[1]):
    fill[(8,)](y, 1000 - (far == 0), far, BLOCK=128)
    torch.cuda.synchronize()
print(int(y.sum()))
"""


def paths(*first: Path) -> str:
    """Return a PYTHONPATH that begins with these folders and keeps the caller's."""
    return os.pathsep.join([*map(str, first), *filter(None, [os.environ.get("PYTHONPATH")])])


def program(tmp_path: Path, far: int) -> tuple[Path, subprocess.CompletedProcess[str]]:
    script, file = tmp_path / "program.py", tmp_path / "program.safetensors"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": paths(ROOT / "src")}
    words = [sys.executable, str(script), str(file), str(far)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    return file, done


def test_a_launch_that_crashes_is_kept_and_its_access_is_named(tmp_path: Path) -> None:
    file, done = program(tmp_path, far=1 << 44)
    assert done.returncode != 0
    assert "illegal memory access" in done.stderr, done.stderr[-2000:]
    recording, seen = replayed(file)
    assert "illegal memory access" in recording.launches[0].failure
    faults = [fault for _, fault in seen.faults]
    assert {"out-of-bounds", "address-overflow"} & {fault.kind for fault in faults}
    assert faults[0].touches[0].file == "program.py"


def test_the_same_launch_inside_its_bounds_is_clean(tmp_path: Path) -> None:
    file, done = program(tmp_path, far=0)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == str(sum(range(1000)))
    _, seen = replayed(file)
    assert seen.faults == ()
    equal, written = bytes_of(seen.launches[0])
    assert equal == written > 0


HANGS = """
import sys, torch
import cuassay
from tests.machine import triton_recorded as more

flag, y = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(32, device="cuda")
with cuassay.record_launches(sys.argv[1], limit_s=2.0):
    more.waits(flag, y)
"""


def test_a_launch_that_hangs_is_kept_while_it_hangs(tmp_path: Path) -> None:
    script, file = tmp_path / "hangs.py", tmp_path / "hangs.safetensors"
    script.write_text(HANGS)
    environment = {**os.environ, "PYTHONPATH": paths(ROOT / "src", ROOT)}
    started = subprocess.Popen([sys.executable, str(script), str(file)], env=environment)
    try:
        for _ in range(1200):
            if file.is_file() or started.poll() is not None:
                break
            time.sleep(0.1)
        assert started.poll() is None
    finally:
        started.kill()
        started.wait()
    recording, seen = replayed(file)
    assert recording.launches[0].failure == "it had not ended after 2 s"
    assert [fault.kind for _, fault in seen.faults] == ["deadlock"]
    y = torch.zeros(32, device="cuda")
    with cuassay.record_launches(file):
        more.waits(torch.ones(1, dtype=torch.int32, device="cuda"), y)
    _, seen = replayed(file)
    assert seen.faults == ()
    equal, written = bytes_of(seen.launches[0])
    assert equal == written > 0


def test_descriptors_of_the_host_are_kept_in_the_machines_form(tmp_path: Path) -> None:
    x = torch.randn(40, 64, device="cuda")
    file = tmp_path / "tiles.safetensors"
    with cuassay.record_launches(file, unwritten=True) as recorder:
        y = more.doubled_tiles(x)
    assert torch.equal(y, 2.0 * x)
    assert list(recorder.notes()) == []
    _, seen = replayed(file)
    assert seen.faults == ()
    equal, written = bytes_of(seen.launches[0])
    assert equal == written > 40 * 64 * 3


def test_a_captured_launch_is_left_out_and_told(tmp_path: Path) -> None:
    x = torch.randn(4, 64, device="cuda")
    kernels.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with cuassay.record_launches(tmp_path / "graph.safetensors") as recorder:
        kernels.softmax(x)
        with torch.cuda.graph(graph):
            y = kernels.softmax(x)
        graph.replay()
    assert recorder.kept == 1
    assert "CUDA graph" in " ".join(recorder.notes())
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-5)


def test_a_declared_tensor_map_is_replayed_bit_by_bit(tmp_path: Path) -> None:
    (tmp_path / "tiles.cu").write_text(TILES)
    (tmp_path / "scale.py").write_text(PROBLEM)
    file = tmp_path / "tiles.safetensors"
    document = cuassay_run(
        str(tmp_path / "tiles.cu"), "--problem", str(tmp_path / "scale.py"), "--device", "cuda",
        "--axes", "rows=20", "--record", str(file), expect=0,
    )  # fmt: skip
    (launch,) = document["evidence"]["launches"]
    (one,) = launch["agreement"]
    assert one["equal"] == one["nbytes"] > 20 * 64 * 3


@pytest.mark.parametrize(("name", "kind"), PLANTED)
def test_a_planted_fault_is_recorded_on_the_gpu_and_found(
    name: str, kind: str, tmp_path: Path
) -> None:
    pair = next(one for one in PAIRS if one.name == name)
    words = ("--problem", pair.problem, "--device", "cuda", "--record")
    file = tmp_path / "bug.safetensors"
    assert kind in kinds(cuassay_run(str(pair.bug), *words, str(file), expect=1))
    _, again = replayed(file)
    assert kind in {fault.kind for _, fault in again.faults}
    assert "sm_" in again.device
    twin = cuassay_run(str(pair.twin), *words, str(tmp_path / "twin.safetensors"), expect=0)
    for launch in twin["evidence"]["launches"]:
        assert launch["agreement"], launch  # something was written, and it was recorded
