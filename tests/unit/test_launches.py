"""Triton's launches recorded in a running program, the PTX machine in the GPU's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cuassay
from cuassay.build.machine.replay import execute
from cuassay.errors import MissingToolError, UsageError
from cuassay.model.recording import decode
from tests.support.paths import python_path

pytest.importorskip("triton")
pytest.importorskip("numba")
# Triton's driver and its native functions are for a process of their own.
SCRIPT = """
import sys, torch, triton, triton.language as tl
from pathlib import Path
from cuassay.build.machine import triton_kernels as machine_triton
from cuassay.build.cuda_facade import cuda_facade
from cuassay.build.recording.gpu_memory import TorchMemory
from cuassay.build.recording.recorder import Wish
from cuassay.build.machine.launch import MachineLauncher
from cuassay.build.machine.memory import StorageArena
from cuassay.build.recording.unwritten import new_pattern
from cuassay.launches import _recorded
from tests.machine.triton_recorded import doubled_tiles

arena = StorageArena()
machine_triton.enable(MachineLauncher(arena=arena), arch=90, multiprocessors=4)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def scale(x, pair, y, n, slack, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + o, mask=o < n + slack, other=0.0) * pair[1]
    tl.store(y + o, v + tl.load(pair[0]), mask=o < n)


def run(x, slack):
    y, one = torch.empty_like(x), torch.full((1,), 3.0)
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, (one, 2.5), y, x.numel(), slack)
    return y


def recorded(name, slack):
    path = Path(sys.argv[1]) / name
    with cuda_facade():
        x = torch.arange(300.0)
        run(x, 0)  # before the block: not recorded
        with _recorded(path, Wish(pattern=new_pattern()), TorchMemory(), device="cpu") as recorder:
            y = run(x, slack)
        run(x, 0)
    assert recorder.kept == 1 and not list(recorder.notes()), list(recorder.notes())
    assert torch.equal(y, x * 2.5 + 3.0)


recorded("clean.safetensors", 0)
recorded("planted.safetensors", 1)
path = Path(sys.argv[1]) / "tiles.safetensors"
with cuda_facade(), arena.watching({}, ()), _recorded(
    path, Wish(), TorchMemory(), device="cpu"
) as recorder:
    x = torch.arange(40.0 * 64).reshape(40, 64)
    assert torch.equal(doubled_tiles(x), 2.0 * x)
    assert recorder.kept == 1, list(recorder.notes())
print("done")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a program with a clean and a faulty launch left."""
    found = tmp_path_factory.mktemp("launches")
    script = found / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(found / "cache"),
        "PYTHONPATH": python_path(root / "src", root),
    }
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(found)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr
    return found


def test_a_clean_launch_of_a_program_agrees_in_every_byte(folder: Path) -> None:
    recording = decode((folder / "clean.safetensors").read_bytes())
    (launch,) = recording.launches
    assert (launch.kernel, launch.grid) == ("scale", (5, 1, 1))
    assert [region.name for region in launch.regions] == ["x", "pair", "y"]
    assert list(launch.written) == [2]  # nobody had written to torch.empty_like's memory
    assert "def scale(" in recording.sources["script.py"]
    seen = execute(recording, {})
    assert seen.faults == ()
    (one,) = seen.launches[0].agreement or ()
    assert one.equal == one.nbytes > 1150  # of 1200: few bytes were right before


def test_a_fault_of_a_program_is_found_on_its_line(folder: Path) -> None:
    seen = execute(decode((folder / "planted.safetensors").read_bytes()), {})
    (fault,) = [fault for _, fault in seen.faults if fault.kind == "out-of-bounds"]
    assert (fault.allocation, fault.offset) == ("buffer 'x'", 1200)
    touch = fault.touches[0]
    line = SCRIPT.splitlines()[touch.line - 1]
    assert touch.file == "script.py"
    assert "tl.load(x + o" in line


def test_descriptors_of_the_host_are_kept_in_the_machines_form(folder: Path) -> None:
    recording = decode((folder / "tiles.safetensors").read_bytes())
    (launch,) = recording.launches
    assert [region.name for region in launch.regions] == ["x", "y"]
    assert [len(argument) for argument in launch.arguments][:5] == [128, 4, 4, 8, 8]
    seen = execute(recording, {})
    assert seen.faults == ()
    (one,) = seen.launches[0].agreement or ()
    assert (one.allocation, one.equal) == ("y", one.nbytes)


def test_arguments_that_are_off_are_told_before_anything_runs(tmp_path: Path) -> None:
    for path, options, words in (
        (tmp_path / "a.bin", {}, "does not end in .safetensors"),
        (tmp_path / "no" / "a.safetensors", {}, "is not a folder"),
        (tmp_path / "a.safetensors", {"most": 0}, "most=0 is too small"),
        (tmp_path / "a.safetensors", {"max_bytes": 0}, "max_bytes=0 is too small"),
    ):
        with (
            pytest.raises(UsageError, match=words),
            cuassay.record_launches(path, **options),  # type: ignore[arg-type]
        ):
            pass


def test_without_a_gpu_nothing_is_recorded_and_nothing_runs(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with (
        pytest.raises(MissingToolError, match="recorded on an NVIDIA GPU"),
        cuassay.record_launches(tmp_path / "a.safetensors"),
    ):
        raise AssertionError("the block is not entered")
