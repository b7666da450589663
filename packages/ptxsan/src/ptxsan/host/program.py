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

from ptxsan.errors import UsageError
from ptxsan.findings import MachineFinding, Severity
from ptxsan.host.build import Linked, Options, compile_unit, find_compiler, link, shared_runtime
from ptxsan.host.devices import SeveralDevices
from ptxsan.host.report import standing
from ptxsan.host.runtime import Dim3, Runtime
from ptxsan.host.sanitizer import Sanitizer
from ptxsan.isa import arch_number
from ptxsan.options import Options as RunOptions
from ptxsan.schedules import SCHEDULES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLaunch:
    """One launch of a program: what was launched, and what the machine found in any schedule.

    `inconclusive` says why the launch could not be executed to its end, where it could not;
    `left_out` is what it uses and was not looked at.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    findings: tuple[MachineFinding, ...] = ()
    inconclusive: str = ""
    left_out: tuple[str, ...] = ()
    run_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReport:
    """A run of a program: its exit status (negative: the signal), output and launches.

    `host` is what its host code did wrong, `uncovered` what it uses that nobody models. `build_s`
    and `run_s` are wall seconds. `timed_out` says that the program was ended.
    """

    status: int
    output: str
    launches: tuple[ProgramLaunch, ...]
    host: tuple[MachineFinding, ...]
    uncovered: tuple[str, ...]
    build_s: float
    run_s: float
    timed_out: bool = False

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject, of all launches and of the host."""
        launched = [one for launch in self.launches for one in launch.findings]
        return tuple(one for one in (*launched, *self.host) if one.severity is Severity.WRONG)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Why launches could not be executed, one text a launch, and what else is not modelled."""
        return (*self.stopped, *self.uncovered)

    @property
    def stopped(self) -> tuple[str, ...]:
        """Why launches could not be executed to their end, one text a launch."""
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
    host_flags: Sequence[str] = (),
    arch: str = "",
) -> Linked:
    """Compile a program's sources (.cu, .cpp) into a library in `folder`.

    `standard` is that of C++ (c++17), else the compilers' own; `host_flags` are for the host's
    compiler and linker (-fopenmp); device code is compiled for `arch` (sm_100a). Raises
    CompileError with a compiler's log, UsageError where a compiler is missing.
    """
    compiler = find_compiler()
    runtime = shared_runtime(compiler)
    flags = (f"-std={standard}",) if standard else ()
    options = Options(  # -g1: the lines of the host's own accesses to memory are wanted
        defines=tuple(defines), folders=tuple(folders), compiler=compiler,
        host_flags=("-g1", *flags, *host_flags),
        device_flags=flags, arch=arch,
    )  # fmt: skip
    units = [
        compile_unit(path, folder / f"unit{number}", options) for number, path in enumerate(sources)
    ]
    libraries = ["-Wl,-z,defs", "-lm", "-lpthread", *host_flags]
    return link(units, folder / "program.so", runtime=runtime, flags=libraries, compiler=compiler)


def run_program(
    sources: Sequence[Path],
    arguments: Sequence[str] = (),
    *,
    defines: Sequence[str] = (),
    folders: Sequence[Path] = (),
    standard: str = "",
    host_flags: Sequence[str] = (),
    schedules: Sequence[tuple[str, int]] = SCHEDULES[:1],
    launch_limit_s: float = 60.0,
    timeout_s: float = 600.0,
    folder: Path | None = None,
    devices: int = 1,
    arch: str = "",
) -> ProgramReport:
    """Compile and run a CUDA program; every launch is executed by the machine with its checks.

    The program runs in `folder`, else in the current one, with the rights of the caller. Each
    launch runs under all `schedules`; the program goes on with what the first one leaves. With
    several `devices` launches run together (host/devices.py), in orders of their own. Raises
    CompileError and UsageError as `build_program` does.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as name:
        paths = [path.resolve() for path in sources]
        linked = build_program(
            paths, Path(name), defines=defines, folders=folders, standard=standard,
            host_flags=host_flags, arch=arch,
        )  # fmt: skip
        build_s = time.perf_counter() - started
        ran = run_built(
            linked, paths[0], arguments, schedules=schedules, launch_limit_s=launch_limit_s,
            timeout_s=timeout_s, folder=folder, devices=devices, arch=arch,
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
    folder: Path | None = None,
    devices: int = 1,
    arch: str = "",
) -> ProgramReport:
    """Run what `build_program` made, under the name `program`; see `run_program`."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as name:
        scratch = Path(name)
        runtime = shared_runtime(find_compiler())
        wish = {
            "library": linked.library, "runtime": str(runtime), "program": str(program),
            "arguments": list(arguments), "schedules": list(schedules),
            "limit_s": launch_limit_s, "report": str(scratch / "report.jsonl"),
            "devices": devices, "arch": arch_number(arch) if arch else RunOptions().arch,
        }  # fmt: skip
        request = scratch / "request.json"
        request.write_text(json.dumps(wish))
        command = [sys.executable, "-P", "-m", "ptxsan.host.program", str(request)]
        output = scratch / "output"
        timed_out = False
        with output.open("wb") as stream:
            try:
                status = subprocess.run(
                    command, stdout=stream, stderr=subprocess.STDOUT, check=False,
                    timeout=timeout_s, cwd=folder,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                status, timed_out = -9, True
        report = scratch / "report.jsonl"
        lines = report.read_text().splitlines() if report.exists() else []
        rows = standing(map(json.loads, lines))
        return ProgramReport(
            status=status,
            output=output.read_text(errors="replace"),
            launches=tuple(
                ProgramLaunch(
                    kernel=row["kernel"],
                    grid=tuple(row["grid"]),
                    block=tuple(row["block"]),
                    findings=tuple(map(MachineFinding.read, row["findings"])),
                    inconclusive=row["inconclusive"],
                    left_out=tuple(row["left_out"]),
                    run_s=row["run_s"],
                )
                for row in rows
                if "kernel" in row
            ),
            host=tuple(MachineFinding.read(row["host"]) for row in rows if "host" in row),
            uncovered=tuple(dict.fromkeys(row["uncovered"] for row in rows if "uncovered" in row)),
            build_s=0.0,
            run_s=time.perf_counter() - started,
            timed_out=timed_out,
        )


def _serve(request: Path) -> int:
    """Run a built program in this process; returns its exit status."""
    wish = json.loads(request.read_text())
    arch = int(wish["arch"])
    options = RunOptions(limit_s=wish["limit_s"], shadow=False, arch=arch)
    schedules = [(name, seed) for name, seed in wish["schedules"]]
    linked, devices = Linked.read(Path(wish["library"])), int(wish["devices"])
    path, report, library = Path(wish["runtime"]), Path(wish["report"]), Path(linked.library)
    # Few, so that persistent kernels stay small; on sm_100 a cluster of eight blocks has to fit,
    # since libraries divide by it.
    multiprocessors = 8 if arch >= 100 else 4
    sanitizer: Sanitizer
    if devices > 1:
        sanitizer = several = SeveralDevices(options, schedules, report, library=library)
        runtime = Runtime(
            path, several, strict=True, devices=devices, settles=several.settle, arch=arch,
            multiprocessors=multiprocessors,
        )  # fmt: skip
    else:
        sanitizer = Sanitizer(
            options, schedules, report, concurrent=linked.is_concurrent, library=library
        )
        runtime = Runtime(
            path, sanitizer, strict=True, resumes=sanitizer.resume, arch=arch,
            multiprocessors=multiprocessors,
        )  # fmt: skip
    sanitizer.connect(runtime)
    code = runtime.register(linked)
    words = [wish["program"], *wish["arguments"]]
    vector = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    # By its own name: a compiler ends `main` alone with the status 0 where it returns none.
    if not hasattr(code, "main"):
        raise UsageError(f"{wish['program']} defines no main(); give a program, or a kernel to run")
    status = int(code.main(len(words), vector))
    ctypes.CDLL(None).fflush(None)
    sanitizer.finish()
    if runtime.failure is not None:
        raise runtime.failure
    return status


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(_serve(Path(sys.argv[1])) & 0xFF)
