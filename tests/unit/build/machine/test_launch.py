"""Raw kernels on CPU tensors, executed by the machine: numbers, recordings, replays, faults."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from cuassay import build
from cuassay.build import zones
from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.build.machine import candidates as machine
from cuassay.build.machine import launch as launches
from cuassay.build.machine.launch import LaunchFault
from cuassay.build.machine.memory import StorageArena
from cuassay.build.machine.replay import execute
from cuassay.errors import MissingToolError
from cuassay.model.candidate import Candidate, Language, Launch, Scratch
from cuassay.model.device import CPU
from cuassay.model.recording import Recording, decode, encode
from ptxsan.names import readable
from tests.support.builds import candidate, problem

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
SOURCE = """#include <stdint.h>
#include "half.cuh"
extern "C" __global__ void scale(const float* x, float* part, float factor, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) part[i] = half_of(x[i]) * factor;
}
extern "C" __global__ void shift(const float* part, float* y, int hidden) {
    __shared__ float row[128];
    int t = threadIdx.x;
    if (t < hidden) row[t] = part[blockIdx.x * hidden + t];
    __syncthreads();
    if (t < hidden) y[blockIdx.x * hidden + t] = row[(t + 1) % hidden];
}
"""
HEADER = "#pragma once\n__device__ inline float half_of(float v) { return 0.5f * v; }\n"
LAUNCHES = (
    Launch(
        kernel="scale",
        grid=("-(-rows * hidden // 64)", "1", "1"),
        block=("64", "1", "1"),
        arguments=("x", "part", "factor", "rows * hidden"),
    ),
    Launch(
        kernel="shift",
        grid=("rows", "1", "1"),
        block=("128", "1", "1"),
        arguments=("part", "y", "hidden:int32"),
    ),
)


def raw(source: str = SOURCE) -> Candidate:
    base = candidate(source, HEADER, paths=("k.cu", "half.cuh"), language=Language.CUDA_KERNEL)
    part = Scratch(name="part", dtype="float32", size="rows * hidden", zeroed=False)
    return dataclasses.replace(base, launches=LAUNCHES, scratch=(part,))


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


def recorded(source: str, folder: Path) -> tuple[object, Recording]:
    built = build.load(raw(source), problem(), device=CPU, folder=folder)
    assert machine.current is not None
    machine.current.recorder.start()
    answer = built.call(torch.arange(24.0).reshape(3, 8), 3.0)
    return answer, machine.current.recorder.recording()


def test_an_outline_keeps_every_launch_and_runs_none(tmp_path: Path) -> None:
    _, whole = recorded(SOURCE, tmp_path)
    built = build.load(raw(SOURCE), problem(), device=CPU, folder=tmp_path)
    assert machine.current is not None
    machine.current.recorder.start(outline=True)
    x = torch.arange(24.0).reshape(3, 8)
    built.call(x, 3.0)
    outline = machine.current.recorder.recording()
    assert outline.modules == whole.modules
    for one, other in zip(outline.launches, whole.launches, strict=True):
        assert (one.kernel, one.grid, one.block) == (other.kernel, other.grid, other.block)
        assert [region.nbytes for region in one.regions] == [r.nbytes for r in other.regions]
        assert one.contents == {}
    built = build.load(raw(SOURCE), problem(), device=CPU, folder=tmp_path)
    assert torch.equal(built.call(x, 3.0), (0.5 * x * 3.0).roll(-1, dims=1))  # type: ignore[arg-type]


def test_two_launches_give_the_numbers_and_can_be_replayed(tmp_path: Path) -> None:
    answer, recording = recorded(SOURCE, tmp_path)
    x = torch.arange(24.0).reshape(3, 8)
    assert isinstance(answer, torch.Tensor)
    assert torch.equal(answer, (0.5 * x * 3.0).roll(-1, dims=1))
    first, second = recording.launches
    assert [launch.kernel for launch in (first, second)] == ["scale", "shift"]
    names = [first.regions[place].name for place in first.contents]
    assert sorted(names) == ["part", "x", "y"]
    assert second.contents == {}  # what the first launch left behind is not stored again
    seen = execute(decode(encode(recording)), {"schedules": [["forward", 0], ["reverse", 0]]})
    assert [launch.faults for launch in seen.launches] == [(), ()]
    assert seen.oblivious
    assert seen.order == ()
    lines = {(one.file, one.line) for one in seen.launches[0].lines if one.executed}
    assert {("k.cu", 4), ("k.cu", 5)} <= lines
    assert not any(line > 20 for _, line in lines)  # the header's lines are the header's


@pytest.mark.parametrize(
    ("old", "new", "kind", "line"),
    [
        ("if (i < count)", "if (i <= count)", "out-of-bounds", 5),
        ("__syncthreads();", "", "race", 12),
        ("if (i < count)", "if (i < count - 1)", "uninitialised", 12),
    ],
)
def test_a_replay_finds_the_fault_on_its_line(
    old: str, new: str, kind: str, line: int, tmp_path: Path
) -> None:
    _, recording = recorded(SOURCE.replace(old, new), tmp_path)
    seen = execute(recording, {})
    found = {(f.kind, t.file, t.line) for _, f in seen.faults for t in f.touches}
    assert (kind, "k.cu", line) in found


def test_a_trap_is_reported_as_cuda_reports_it(tmp_path: Path) -> None:
    source = SOURCE.replace("if (i < count)", 'if (i == 5) asm("trap;"); if (i < count)')
    built = build.load(raw(source), problem(), device=CPU, folder=tmp_path)
    with pytest.raises(LaunchFault, match="CUDA error: unspecified launch failure"):
        built.call(torch.ones(3, 8), 3.0)


@pytest.mark.parametrize(("elements", "fault"), [(1 << 33, True), (1 << 20, False)])
def test_what_is_read_far_from_every_allocation_ends_the_launch(
    elements: int, fault: bool, tmp_path: Path
) -> None:
    """A GPU may have something of another trial a little beyond: the judge's own run says so."""
    read = f"if (x[i + {elements}ll] == 12345) part[0] = 0; if (i < count)"
    source = SOURCE.replace("if (i < count)", read)
    built = build.load(raw(source), problem(), device=CPU, folder=tmp_path)
    if not fault:
        built.call(torch.ones(3, 8), 3.0)
        return
    with pytest.raises(LaunchFault, match="an illegal memory access was encountered"):
        built.call(torch.ones(3, 8), 3.0)


def test_a_kernel_waits_for_what_another_rank_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = "while (*(volatile const float*)(x + 5) == 0) {} if (i < count)"
    built = build.load(
        raw(SOURCE.replace("if (i < count)", waits)), problem(), device=CPU, folder=tmp_path
    )
    x = torch.ones(3, 8)
    x[0, 5] = 0
    with pytest.raises(LaunchFault, match="nobody will change it"):
        built.call(x, 3.0)
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    monkeypatch.setattr(launches, "lock_of_ranks", lock)
    other = threading.Timer(0.1, lambda: x[0, 5].fill_(2.0))
    other.start()
    answer = built.call(x, 3.0)
    assert isinstance(answer, torch.Tensor)
    assert answer[0, 4] == 3.0


@pytest.mark.parametrize("count", ["", "if (++looks > 1000000000) return;"])
def test_a_kernel_that_waits_lets_kernels_of_other_ranks_run(
    count: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that counts its looks at a flag kept the ranks' lock until the launch's limit."""
    waits = f"int looks = 0; while (*(volatile const float*)(x + 5) == 0) {{{count}}} "
    built = build.load(
        raw(SOURCE.replace("if (i < count)", waits + "if (i < count)")),
        problem(), device=CPU, folder=tmp_path,
    )  # fmt: skip
    x = torch.ones(3, 8)
    x[0, 5] = 0
    lock = tmp_path / "lock"
    monkeypatch.setattr(launches, "lock_of_ranks", os.open(lock, os.O_RDWR | os.O_CREAT))

    def other_kernel() -> None:
        with launches._OtherRanks(os.open(lock, os.O_RDWR)).alone():
            x[0, 5] = 2.0

    other = threading.Timer(0.2, other_kernel)
    other.start()
    answer = built.call(x, 3.0)
    other.join()
    assert isinstance(answer, torch.Tensor)
    assert answer[0, 4] == 3.0


@pytest.mark.parametrize(("spelt", "target"), [("", "sm_100"), ("// tcgen05\n", "sm_100a")])
def test_kernels_are_compiled_for_a_gpu_that_is_not_there(
    spelt: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_MACHINE_ARCH", "sm_100")
    source = spelt + SOURCE.replace("half_of(x[i])", "__CUDA_ARCH__ * half_of(x[i])")
    answer, recording = recorded(source, tmp_path)
    assert f".target {target}\n" in recording.modules[0]
    assert torch.equal(torch.as_tensor(answer)[0, :7], 1500.0 * torch.arange(1.0, 8.0))


def test_an_instruction_that_the_machine_does_not_know_decides_nothing(tmp_path: Path) -> None:
    source = SOURCE.replace("if (i < count)", 'asm("nanosleep.u32 1; isspacep.const p, 0;");')
    ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { frobnicate.u32 %r1; ret; }"
    assert source != SOURCE
    machine._launcher(raw())
    assert machine.current is not None
    with pytest.raises(MissingToolError, match=r"the PTX machine does not cover 'k'.*frobnicate"):
        machine.current(ptx, "k", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, arguments=[])


def test_memory_of_torch_counts_as_written_byte_by_byte() -> None:
    arena = StorageArena()
    x = torch.ones(4)
    with arena.watching({"x": x}, ()):
        y = torch.empty(8, 2)
        y[:, 1].zero_()
        z = torch.zeros(3)
        flags = {region.buffer.name: region.buffer.initialised for region in arena.regions}
        (fresh,) = [flag for name, flag in flags.items() if "8x2" in name]
        assert fresh is not None
        assert fresh.reshape(8, 2, 4)[:, 1].all()
        assert not fresh.reshape(8, 2, 4)[:, 0].any()
        assert flags["x"] is None
        assert [flags[name] for name in flags if "float32 3" in name] == [None]
        pointer = arena.pointer(x.data_ptr() + 8)
        assert pointer is not None
        assert (pointer.buffer.name, pointer.offset) == ("x", 8)
        addresses = {region.buffer.name: region.buffer.address for region in arena.regions}
        assert addresses["x"] == x.data_ptr() - zones.bytes_at(x.data_ptr())
        assert z.data_ptr() in {held.base + held.zone_bytes for held in arena.regions}
    assert arena.regions == ()


def test_names_of_variables_inside_functions_are_made_plain() -> None:
    assert readable("'_ZZ9block_sumfE5warps' (offset 0)") == "'warps of block_sum' (offset 0)"
    assert readable("buffer 'x' and _ZZ1kE4part") == "buffer 'x' and part of k"
    assert readable("_ZZ99") == "_ZZ99"


def test_the_evidence_is_plain_json(tmp_path: Path) -> None:
    from cuassay.model import serial
    from cuassay.model.machine import MachineEvidence

    _, recording = recorded(SOURCE.replace("__syncthreads();", ""), tmp_path)
    seen = execute(recording, {"schedules": [["random", 3]]})
    again = serial.loads(MachineEvidence, json.dumps(json.loads(serial.dumps(seen))))
    assert again == seen


def test_watching_memory_does_not_import_torchs_compiler() -> None:
    """torch imports it, two seconds in every worker, for a dispatch mode that does not opt out."""
    program = (
        "import sys, torch\n"
        "from cuassay.build.machine.memory import StorageArena\n"
        "with StorageArena().watching({}, ()):\n"
        "    torch.empty(4).fill_(1.0)\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, env=os.environ)
    assert done.returncode == 0
