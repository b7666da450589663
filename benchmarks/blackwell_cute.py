"""NVIDIA's examples of CuTe DSL for Blackwell, as programs, in the machine and without a GPU.

    python benchmarks/blackwell_cute.py FILE... --out ROWS [--arguments WORDS] [--arch N]

FILE is an example of NVIDIA/cutlass, brought from there, that compares its result with PyTorch's
when it is run. CuTe DSL compiles it for sm_100a (or another); what it launches runs in the PTX
machine with all its checks. Each example has a process of its own. ROWS gets a line of JSON for
each: how it ended, what the machine found, seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from blackwell_gluon import DESCRIBED, Launches, blackwell

from cuassay.build import cuda_facade
from cuassay.build.machine import cute_kernels
from cuassay.dispatch_modes import UntracedMode

_ALIGNED = 512  # bytes, as CUDA's allocators give them: examples ask for 128


def _align(tensor: torch.Tensor) -> None:
    """Move a new tensor to memory that begins where a GPU's would."""
    old = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    new = torch.empty(old.numel() + _ALIGNED, dtype=torch.uint8)
    start = -new.data_ptr() % _ALIGNED
    new[start : start + old.numel()].copy_(old)
    offset = start // tensor.element_size() + tensor.storage_offset()
    tensor.set_(new.untyped_storage(), offset, tensor.size(), tensor.stride())


class _Kept(UntracedMode):
    """Keeps the tensors that a program makes, which its launches name by address alone."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            kept = isinstance(one, torch.Tensor) and one.device.type == "cpu" and one.numel()
            if kept and one.untyped_storage().data_ptr() not in self._places:
                _align(one)
                self._places.add(one.untyped_storage().data_ptr())
                DESCRIBED.append(one)
        return made


def _once(
    function: Any, *, kernel_arguments: Any = None, workspace_generator: Any = None, **_: Any
) -> float:
    """Call what an example times, without the events of a driver; it may compare the result."""
    given = kernel_arguments or workspace_generator()
    function(*given.args, **given.kwargs)
    return 1.0


class _Profile(contextlib.nullcontext[Any]):
    """What an example asks PyTorch's profiler for, which has no GPU to look at here."""

    def __init__(self, **_: Any) -> None:
        super().__init__(self)

    def key_averages(self) -> SimpleNamespace:
        return SimpleNamespace(table=lambda **_: "")


def _stand_in() -> None:
    """Answer what examples ask a driver or a profiler for beside their kernels."""
    for name in ("cutlass.testing", "cutlass.cute.testing"):
        importlib.import_module(name).benchmark = _once
    importlib.import_module("torch.profiler").profile = _Profile
    importlib.import_module("cutlass.cuda").initialize_cuda_context = lambda *_, **__: None
    driver = importlib.import_module("cuda.bindings.driver")
    driver.cuInit = lambda _flags: (driver.CUresult.CUDA_SUCCESS,)
    driver.cuDeviceGetCount = lambda: (driver.CUresult.CUDA_SUCCESS, 1)


def _run_here(
    file: Path, arguments: list[str], limit_s: float, arch: int = 100
) -> dict[str, object]:
    """Run an example as a program in this process; return its row."""
    launches = Launches(limit_s=limit_s, arch=arch)
    began, ended = time.process_time(), "passed"
    with tempfile.TemporaryDirectory() as folder, blackwell():
        cute_kernels.enable(
            launches, arch=arch, multiprocessors=cuda_facade.MULTIPROCESSORS, folder=Path(folder)
        )
        _stand_in()
        sys.argv = [str(file), *arguments]
        sys.path.insert(0, str(file.parent))
        try:
            with _Kept():
                runpy.run_path(str(file), run_name="__main__")
        except SystemExit as error:
            ended = "passed" if not error.code else f"exit {error.code}"
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"[:400]
    found = {str(one.kind) for report in launches.reports for one in report.findings}
    wrong = launches.wrong()
    return {
        "example": file.name, "arguments": arguments, "ended": ended,
        "wrong": sorted(set(wrong))[:6],
        "notes": sorted(found - {one.partition(":")[0] for one in wrong}),
        "launches": len(launches.reports), "machine_s": round(launches.run_s, 2),
        "cpu_s": round(time.process_time() - began, 2),
    }  # fmt: skip


def main() -> int:
    """Run the examples; return how many did not pass without a finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=120.0, help="seconds of one launch")
    parser.add_argument("--arguments", default="", help="what every example is called with")
    parser.add_argument("--arch", type=int, default=100, help="103, 120")
    parser.add_argument("--here", action="store_true", help="in this process: one example")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.here:
        file, words = given.files[0].resolve(), given.arguments.split()
        row = _run_here(file, words, given.limit_s, given.arch)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return int(row["ended"] != "passed" or bool(row["wrong"]))
    failed = 0
    for one in given.files:
        command = [sys.executable, __file__, str(one), "--here", "--out", str(given.out)]
        command += ["--limit-s", str(given.limit_s), f"--arguments={given.arguments}"]
        command += ["--arch", str(given.arch)]
        failed += bool(subprocess.run(command, check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main())
