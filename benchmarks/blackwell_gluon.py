"""Gluon's own tests for Blackwell, compiled for sm_100 without such a GPU and run in the machine.

    python benchmarks/blackwell_gluon.py FILE... --out ROWS [--only EXPRESSION] [--limit-s S]
    python benchmarks/blackwell_gluon.py FILE... --out ROWS --record FOLDER
    python benchmarks/blackwell_gluon.py FOLDER/*.launch --out ROWS

FILE is a pytest file of Gluon's repository, brought from there: a tutorial or example, which
compares a kernel's result with PyTorch's, or `test_consan.py`, whose tests say whether a sanitizer
has to complain. Triton compiles what they launch (its own `GPUTarget("cuda", 100)`); a launch runs
in the PTX machine with all its checks, on CPU tensors that say that they lie on a GPU. ROWS gets a
line of JSON for each test: how it ended, what the machine found, seconds of CPU.

With --record launches are kept in files instead, which the third form runs with no Triton,
or another one; then nobody compares results.

A test of ConSan passes where the machine says of its launch what the test demands of ConSan:
wrong, or nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import json
import lzma
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuassay.build import cuda_facade
from cuassay.build.machine import triton_kernels
from cuassay.build.machine.launch import prepared
from cuassay.build.machine.memory import StorageArena
from cuassay.model.recording import RecordedLaunch, Region
from ptxsan.errors import MachineError
from ptxsan.findings import MachineReport
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

_ARCH = 100
# Findings of a test's launch that ConSan does not look for: its tests multiply what nobody wrote.
_BESIDE = ("uninitialised",)
DESCRIBED: list[torch.Tensor] = []  # what descriptors are over


@dataclass(slots=True)
class Launches:
    """Runs launches in the machine and keeps what it said of those since `begin`."""

    limit_s: float
    arch: int = _ARCH
    record: Path | None = None
    test: str = ""
    reports: list[MachineReport] = field(default_factory=list)
    run_s: float = 0.0

    def begin(self) -> None:
        """Forget what was said."""
        self.reports.clear()
        self.run_s = 0.0
        DESCRIBED.clear()

    def __call__(
        self, ptx: str, entry: str, *, grid: tuple[int, int, int], block: tuple[int, int, int],
        shared_bytes: int, arguments: Sequence[bytes], tensors: Sequence[Any],
        cluster: tuple[int, int, int], assumes: str,
    ) -> None:  # fmt: skip
        """Run one launch with all checks; raises RuntimeError where it did not come to its end."""
        arena = StorageArena()
        for tensor in (*tensors, *DESCRIBED):
            arena.add(tensor)
        arena.recall(arguments, holds=None)
        regions = tuple(
            Region(name=one.buffer.name, base=one.base, nbytes=one.buffer.data.nbytes)
            for one in arena.regions
        )
        launch = RecordedLaunch(
            module=0, kernel=entry, grid=grid, block=block, cluster=cluster,
            shared_bytes=shared_bytes, arguments=tuple(arguments), regions=regions,
        )  # fmt: skip
        made = prepared(launch, arena)
        if self.record is None:
            self.run(ptx, made)
            return
        digest = hashlib.sha256(f"{self.test} {ptx}".encode()).hexdigest()[:16]
        kept = pickle.dumps((self.test, ptx, made))
        (self.record / f"{digest}.launch").write_bytes(lzma.compress(kept))

    def run(self, ptx: str, launch: Launch) -> None:
        """Run a launch that the machine takes."""
        options = Options(arch=self.arch, shadow=False, limit_s=self.limit_s)
        started = time.process_time()
        report = run(parse(ptx), launch, options=options)
        self.run_s += time.process_time() - started
        self.reports.append(report)
        if report.inconclusive is not None:
            raise RuntimeError(f"not covered: {report.inconclusive}")

    def wrong(self) -> list[str]:
        """Return what is wrong, in words."""
        return [f"{one.kind}: {one.text}" for report in self.reports for one in report.wrong]


class Says(str):
    """A sanitizer's output that contains whatever a test looks for."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return bool(str(self))


class Silent:
    """What tests change the environment by, which would ask for ConSan."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Runner:
    """A pytest plugin: gives tests a GPU that is not there, and keeps a row for each."""

    def __init__(self, launches: Launches, out: Path) -> None:
        self._launches, self._out = launches, out

    @pytest.fixture
    def device(self) -> str:
        """Return where tensors lie."""
        return "cuda"

    @pytest.fixture
    def fresh_knobs(self) -> SimpleNamespace:
        """Return Triton's settings, which nobody changes here."""
        return SimpleNamespace(compilation=SimpleNamespace(instrumentation_mode=""))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Time a test, and keep how it ended beside what the machine found."""
        _leave_uninstrumented()
        self._launches.begin()
        self._launches.test = item.nodeid.rpartition("/")[2]
        started, ended = time.process_time(), "passed"
        try:
            yield
        except pytest.skip.Exception:
            ended = "skipped"
            raise
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"[:400]
            raise
        finally:
            _keep(self._launches, self._out, ended, time.process_time() - started)


def _keep(launches: Launches, out: Path, ended: str, cpu_s: float) -> None:
    """Append the row of one test."""
    wrong = sorted(set(launches.wrong()))
    found = {str(one.kind) for report in launches.reports for one in report.findings}
    row = {
        "test": launches.test, "ended": ended, "wrong": wrong[:6],
        "notes": sorted(found - {one.partition(":")[0] for one in wrong}),
        "launches": len(launches.reports), "machine_s": round(launches.run_s, 2),
        "cpu_s": round(cpu_s, 2),
    }  # fmt: skip
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _replay(files: Sequence[Path], out: Path, launches: Launches) -> int:
    """Run launches that were kept; return 0."""
    for file in files:
        launches.begin()
        launches.test, ptx, launch = pickle.loads(lzma.decompress(file.read_bytes()))
        started, ended = time.process_time(), "ran"
        try:
            launches.run(ptx, launch)
        except (RuntimeError, MachineError) as error:
            ended = f"{type(error).__name__}: {error}"[:400]
        _keep(launches, out, ended, time.process_time() - started)
    return 0


def _in_process(launches: Launches) -> Callable[..., Any]:
    """Return what stands for `run_in_process` of Triton's tests: the launch runs here."""

    def call(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        launches.begin()
        given = [Silent() if isinstance(one, pytest.MonkeyPatch) else one for one in arguments]
        function(*given)
        wrong = [one for one in launches.wrong() if not one.startswith(_BESIDE)]
        error = RuntimeError("device-side assert") if wrong else None
        return SimpleNamespace(exc=error, driver_stderr_output=Says("\n".join(wrong)))

    return call


def _leave_uninstrumented() -> None:
    """Undo what a test of ConSan left behind that asked for its instrumentation in this process."""
    os.environ.pop("TRITON_INSTRUMENTATION_MODE", None)
    importlib.import_module("triton.knobs").compilation.instrumentation_mode = ""


def _keep_described() -> None:
    """Keep the tensors that descriptors are made over: a launch passes their addresses alone."""
    for name in ("triton.tools.tensor_descriptor", "triton.experimental.gluon.nvidia.hopper"):
        kind = importlib.import_module(name).TensorDescriptor
        before = kind.__post_init__

        def after(self: Any, before: Callable[[Any], None] = before) -> None:
            before(self)
            DESCRIBED.append(self.base)

        kind.__post_init__ = after


@contextlib.contextmanager
def blackwell() -> Iterator[None]:
    """Answer for a GPU of compute capability 10.0 in this block."""
    with cuda_facade.cuda_facade():
        before = torch.cuda.get_device_capability
        torch.cuda.get_device_capability = lambda *_: (10, 0)
        try:
            yield
        finally:
            torch.cuda.get_device_capability = before


def main() -> int:
    """Run the tests of the files; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--limit-s", type=float, default=120.0, help="seconds of one launch")
    parser.add_argument("--record", type=Path, help="keep launches in a folder, run none")
    parser.add_argument("--list", action="store_true", help="print the tests' names alone")
    given = parser.parse_args()
    launches = Launches(limit_s=given.limit_s, record=given.record)
    if given.files[0].suffix == ".launch":
        return _replay(given.files, given.out, launches)
    if given.record is not None:
        given.record.mkdir(parents=True, exist_ok=True)
    triton_kernels.enable(launches, arch=_ARCH, multiprocessors=cuda_facade.MULTIPROCESSORS)
    arguments = [*map(str, given.files), "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    arguments += ["-k", given.only] if given.only else []
    arguments += ["--collect-only"] if given.list else ["--tb=no", "--assert=plain"]
    sys.path.insert(0, str(given.files[0].resolve().parent))  # tutorials import one another
    arguments += [
        "-W",
        "ignore",
        "-c",
        "/dev/null",
        "--rootdir",
        str(given.files[0].resolve().parent),
    ]
    # A collection while Python 3.11 makes a syntax tree ends Triton with a SystemError.
    gc.disable()
    with blackwell():
        testing = importlib.import_module("triton._internal_testing")
        testing.is_cuda = lambda: True
        testing.run_in_process = _in_process(launches)
        # What tutorials compare their speed with when they are run as programs.
        libraries = importlib.import_module("triton._C.libtriton").nvidia.cublas
        libraries.CublasLt = lambda _workspace: SimpleNamespace()
        _keep_described()
        return int(pytest.main(arguments, plugins=[Runner(launches, given.out)]))


if __name__ == "__main__":
    sys.exit(main())
