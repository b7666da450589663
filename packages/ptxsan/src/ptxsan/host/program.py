"""Whole CUDA programs, run unchanged: host code natively, every launch in the machine.

`run_program` compiles a `.cu` with a `main` and runs it in a process of its own, since a program
may call `exit` or crash.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxsan.errors import MachineError, UsageError
from ptxsan.findings import Kind as Fault
from ptxsan.findings import MachineFinding, MachineReport, Severity
from ptxsan.host.build import Linked, Options, compile_unit, find_compiler, link, runtime_library
from ptxsan.host.memory import Memory
from ptxsan.host.runtime import LAUNCH_FAILURE, NOT_SUPPORTED, SUCCESS, Dim3, Runtime, Texels
from ptxsan.launch import Launch, Texture
from ptxsan.options import Options as RunOptions
from ptxsan.parser import parse
from ptxsan.schedules import SCHEDULES, every, once
from ptxsan.syntax import Module

_MOST_KIND = 2  # enum cudaChannelFormatKind: signed, unsigned, float; others are compressed
_FATAL = (Fault.DEADLOCK, Fault.TRAP, Fault.ASSERT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLaunch:
    """One launch of a program: what was launched, and what the machine found in any schedule.

    `inconclusive` says why the launch could not be executed to its end, where it could not.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    findings: tuple[MachineFinding, ...] = ()
    inconclusive: str = ""
    run_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReport:
    """A run of a program: its exit status (negative: the signal), output and launches.

    `build_s` and `run_s` are wall seconds. `timed_out` says that the program was ended.
    """

    status: int
    output: str
    launches: tuple[ProgramLaunch, ...]
    build_s: float
    run_s: float
    timed_out: bool = False

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject, of all launches."""
        return tuple(
            one
            for launch in self.launches
            for one in launch.findings
            if one.severity is Severity.WRONG
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Why launches could not be executed, one text a launch."""
        return tuple(
            f"{one.kernel}: {one.inconclusive}" for one in self.launches if one.inconclusive
        )


def build_program(
    sources: Sequence[Path],
    folder: Path,
    *,
    defines: Sequence[str] = (),
    folders: Sequence[Path] = (),
    standard: str = "",
) -> Linked:
    """Compile a program's sources (.cu, .cpp) into a library in `folder`.

    `standard` is that of C++ (c++17), else the compilers' own. Raises CompileError with a
    compiler's log, UsageError where a compiler is missing.
    """
    compiler = find_compiler()
    runtime = runtime_library(folder, compiler=compiler)
    flags = (f"-std={standard}",) if standard else ()
    options = Options(
        defines=tuple(defines), folders=tuple(folders), compiler=compiler, host_flags=flags,
        device_flags=flags,
    )  # fmt: skip
    units = [
        compile_unit(path, folder / f"unit{number}", options) for number, path in enumerate(sources)
    ]
    libraries = ["-Wl,-z,defs", "-lm", "-lpthread"]
    return link(units, folder / "program.so", runtime=runtime, flags=libraries, compiler=compiler)


def run_program(
    sources: Sequence[Path],
    arguments: Sequence[str] = (),
    *,
    defines: Sequence[str] = (),
    folders: Sequence[Path] = (),
    standard: str = "",
    schedules: Sequence[tuple[str, int]] = SCHEDULES[:1],
    launch_limit_s: float = 60.0,
    timeout_s: float = 600.0,
) -> ProgramReport:
    """Compile and run a CUDA program; every launch is executed by the machine with its checks.

    The program runs in the current folder with the rights of the caller. Each launch runs under
    all `schedules`; the program goes on with what the first one leaves. Raises CompileError and
    UsageError as `build_program` does.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as name:
        paths = [path.resolve() for path in sources]
        linked = build_program(
            paths, Path(name), defines=defines, folders=folders, standard=standard
        )
        build_s = time.perf_counter() - started
        ran = run_built(
            linked, paths[0], arguments, schedules=schedules, launch_limit_s=launch_limit_s,
            timeout_s=timeout_s,
        )  # fmt: skip
        return dataclasses.replace(ran, build_s=build_s)


def run_built(
    linked: Linked,
    program: Path,
    arguments: Sequence[str] = (),
    *,
    schedules: Sequence[tuple[str, int]] = SCHEDULES[:1],
    launch_limit_s: float = 60.0,
    timeout_s: float = 600.0,
) -> ProgramReport:
    """Run what `build_program` made, under the name `program`; see `run_program`."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as name:
        folder = Path(name)
        runtime = runtime_library(Path(linked.library).parent)
        wish = {
            "library": linked.library, "runtime": str(runtime), "program": str(program),
            "arguments": list(arguments), "schedules": list(schedules),
            "limit_s": launch_limit_s, "report": str(folder / "report.jsonl"),
        }  # fmt: skip
        request = folder / "request.json"
        request.write_text(json.dumps(wish))
        command = [sys.executable, "-P", "-m", "ptxsan.host.program", str(request)]
        output = folder / "output"
        timed_out = False
        with output.open("wb") as stream:
            try:
                status = subprocess.run(
                    command, stdout=stream, stderr=subprocess.STDOUT, check=False,
                    timeout=timeout_s,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status, timed_out = -9, True
        report = folder / "report.jsonl"
        lines = report.read_text().splitlines() if report.exists() else []
        return ProgramReport(
            status=status,
            output=output.read_text(errors="replace"),
            launches=tuple(map(_launch, map(json.loads, lines))),
            build_s=0.0,
            run_s=time.perf_counter() - started,
            timed_out=timed_out,
        )


def _launch(row: dict[str, Any]) -> ProgramLaunch:
    return ProgramLaunch(
        kernel=row["kernel"], grid=tuple(row["grid"]), block=tuple(row["block"]),
        findings=tuple(map(MachineFinding.read, row["findings"])),
        inconclusive=row["inconclusive"], run_s=row["run_s"],
    )  # fmt: skip


class _Sanitizer:
    """Executes a program's launches and writes what was found of each, as it comes."""

    def __init__(
        self, options: RunOptions, schedules: Sequence[tuple[str, int]], report: Path
    ) -> None:
        self._options, self._schedules, self._report = options, schedules, report
        self._memory = Memory()
        self._modules: dict[str, Module] = {}
        self._textures: dict[int, Texture] = {}

    def module(self, ptx: str) -> Module:
        if ptx not in self._modules:
            self._modules[ptx] = parse(ptx)
        return self._modules[ptx]

    def launch(
        self,
        ptx: str,
        entry: str,
        *,
        grid: Dim3,
        block: Dim3,
        cluster: Dim3,
        shared_bytes: int,
        arguments: Sequence[bytes],
    ) -> int:
        module = self.module(ptx)
        raw = tuple(arguments)
        launch = Launch(
            kernel=entry, grid=grid, block=block, cluster=cluster,
            dynamic_shared_bytes=shared_bytes, arguments=tuple(map(self._memory.argument, raw)),
            pointers_inside=self._memory.inside(raw), buffers=self._memory.buffers,
            stored_pointers=self._memory.stored_pointers(),
            textures=tuple(self._textures.values()),
        )  # fmt: skip
        findings: Sequence[MachineFinding] = ()
        why, run_s = "", 0.0
        try:
            reports: Sequence[MachineReport] = every(
                module, launch, options=self._options, schedules=self._schedules
            )
            report = reports[0]
            findings = once(reports)
            why = next((one.inconclusive for one in reports if one.inconclusive), None) or ""
            run_s = sum(one.statistics.run_s for one in reports)
            sys.stdout.write(report.output)
            sys.stdout.flush()
        except MachineError as error:
            why = str(error)
        row = {
            "kernel": entry, "grid": grid, "block": block, "inconclusive": why, "run_s": run_s,
            "findings": [dataclasses.asdict(one) for one in findings],
        }  # fmt: skip
        with self._report.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        fatal = any(one.kind in _FATAL for one in findings)
        return LAUNCH_FAILURE if fatal else SUCCESS

    def allocated(self, base: int, nbytes: int, *, initialised: bool) -> None:
        self._memory.add(base, nbytes, initialised=initialised)

    def freed(self, base: int) -> None:
        self._memory.remove(base)

    def written(self, base: int, nbytes: int, source: int | None) -> None:
        self._memory.mark_written(base, nbytes, source)

    def textured(self, texels: Texels) -> int:
        pointer = self._memory.pointer(texels.data)
        if pointer is None or texels.bits not in (8, 16, 32) or texels.kind > _MOST_KIND:
            return NOT_SUPPORTED
        self._textures[texels.handle] = Texture(
            handle=texels.handle, pointer=pointer, width=texels.width, height=texels.height,
            depth=texels.depth, pitch=texels.pitch, slice_bytes=texels.slice,
            channels=texels.channels, bits=texels.bits, kind=texels.kind,
            normalized=bool(texels.normalized), linear=bool(texels.linear),
            fractions=bool(texels.fractions),
            modes=(texels.modes[0], texels.modes[1], texels.modes[2]),
            border=(texels.border[0], texels.border[1], texels.border[2], texels.border[3]),
        )  # fmt: skip
        return SUCCESS

    def untextured(self, handle: int) -> None:
        self._textures.pop(handle, None)


def _serve(request: Path) -> int:
    """Run a built program in this process; returns its exit status."""
    wish = json.loads(request.read_text())
    options = RunOptions(limit_s=wish["limit_s"], shadow=False)
    schedules = [(name, seed) for name, seed in wish["schedules"]]
    sanitizer = _Sanitizer(options, schedules, Path(wish["report"]))
    runtime = Runtime(Path(wish["runtime"]), sanitizer, strict=True)
    code = runtime.register(Linked.read(Path(wish["library"])))
    words = [wish["program"], *wish["arguments"]]
    vector = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    # By its own name: a compiler ends `main` alone with the status 0 where it returns none.
    if not hasattr(code, "main"):
        raise UsageError(f"{wish['program']} defines no main(); give a program, or a kernel to run")
    status = int(code.main(len(words), vector))
    ctypes.CDLL(None).fflush(None)
    if runtime.failure is not None:
        raise runtime.failure
    return status


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(_serve(Path(sys.argv[1])) & 0xFF)
