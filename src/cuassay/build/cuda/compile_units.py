"""Run the compilers: every translation unit at once, light headers raced against torch's."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cuassay.build.cuda.host_lines import counting_flags, link_counters
from cuassay.build.cuda.nvcc_passes import parallel_script
from cuassay.build.cuda.toolkit import cuda_home, find_host_compiler, find_nvcc, include_folders
from cuassay.build.cuda.torch_headers import (
    PYBIND_MACRO,
    light_headers_suffice,
    mentions_binding,
    write_light_headers,
)
from cuassay.build.sources import clip_log
from cuassay.errors import BuildError
from cuassay.model.candidate import BuildFlags

# what torch's own extension builder passes: sources rely on these conversions being absent
_NVCC_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)
_RACE_FROM_CPUS = 4
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One translation unit."""

    path: Path
    text: str
    is_cuda: bool


class _Compilation:
    """One running compiler. Its output goes to a file, so that no pipe can fill up."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd=log.parent
            )

    def status(self) -> int | None:
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """Kill the compiler driver and the passes that it started."""
        for pid in [*_descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


def _descendants(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    children = [int(part) for part in text.split()]
    return [found for child in children for found in (*_descendants(child), child)]


def compile_units(
    units: Sequence[Unit],
    *,
    every_text: Sequence[str],
    flags: BuildFlags,
    name: str,
    arch: str,
    folder: Path,
    counted: bool = False,
) -> list[Path]:
    """Compile every unit and return the object files, in order.

    `every_text` holds all sources, headers included. With `counted` the host's units count which
    of their branches run (see `host_lines`). Raises BuildError with the log of the first unit that
    fails against torch's own headers.
    """
    objects = folder / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    light = None
    if light_headers_suffice(every_text):
        light = write_light_headers(folder, every_text, torch_include())
    counting: tuple[str, ...] = ()
    if counted:
        foreign = [torch_include(), *include_folders(), Path(sysconfig.get_path("include"))]
        foreign += [light] if light is not None else []
        counting = tuple(counting_flags(str(find_host_compiler()), foreign))
    jobs = [
        CompileJob(
            unit, flags, name=name, arch=arch, folder=objects, light=light, counting=counting
        )
        for unit in units
    ]
    race = light is not None and (os.cpu_count() or 1) >= _RACE_FROM_CPUS
    try:
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            return list(pool.map(lambda job: job.run(race=race), jobs))
    finally:
        for passes in objects.glob("*.passes"):  # tens of megabytes of preprocessed headers
            shutil.rmtree(passes, ignore_errors=True)


class CompileJob:
    """Compiles one unit."""

    def __init__(
        self,
        unit: Unit,
        flags: BuildFlags,
        *,
        name: str,
        arch: str,
        folder: Path,
        light: Path | None,
        counting: tuple[str, ...] = (),
    ) -> None:
        self._unit, self._flags, self._name = unit, flags, name
        self._arch, self._folder, self._light = arch, folder, light
        self._counting = counting

    def run(self, *, race: bool) -> Path:
        """Return the object file: of the light build if that succeeds, else of the full one."""
        if self._light is None:
            return self._finish_full(self._start("full", None))
        light = self._start("light", self._light)
        full = self._start("full", None) if race else None
        try:
            while light.status() is None:
                if full is not None and full.status() == 0:
                    return self._object("full")
                time.sleep(_POLL_S)
            if light.status() == 0:
                return self._object("light")
            return self._finish_full(full or self._start("full", None))
        finally:
            light.stop()
            if full is not None:
                full.stop()

    def _object(self, kind: str) -> Path:
        return self._folder / f"{self._unit.path.name}.{kind}.o"

    def _finish_full(self, compilation: _Compilation) -> Path:
        if compilation.wait() != 0:
            raise BuildError(
                f"{self._unit.path.name} does not compile",
                clip_log(compilation.text().replace(f"{self._unit.path.parent}{os.sep}", "")),
            )
        return self._object("full")

    def _start(self, kind: str, first_include: Path | None) -> _Compilation:
        output = self._object(kind)
        log = output.with_suffix(".log")
        command = self.command(output, first_include)
        if first_include is not None and self._unit.is_cuda:
            script = parallel_script(command, output.with_suffix(".passes"))
            command = ["/bin/sh", str(script)] if script is not None else command
        return _Compilation(command, log)

    def command(self, output: Path, first_include: Path | None) -> list[str]:
        unit = self._unit
        includes = [f"-I{unit.path.parent}"]
        if first_include is not None:
            includes.append(f"-I{first_include}")
        defines = [f"-DTORCH_EXTENSION_NAME={self._name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
        if mentions_binding(unit.text):
            defines.append(f"-D{PYBIND_MACRO}")
        tail = ["-c", str(unit.path), "-o", str(output)]
        if unit.is_cuda:
            given = with_ptx(self._flags.cuda_cflags, self._arch)
            # Lines: the PTX machine names those of the source. They change no instruction.
            options = [*_NVCC_FLAGS, "-lineinfo", "-Xcompiler", "-fPIC", *given]
            return [
                str(find_nvcc()),
                *includes,
                *_system_includes(),
                *defines,
                *(options if _names_standard(given) else [*options, _standard()]),
                *tail,
            ]
        own = self._flags.cflags
        standard = () if _names_standard(own) else (_standard(),)
        options = ["-fPIC", *standard, *own, *self._counting]
        return [
            str(find_host_compiler()),
            *includes,
            *_system_includes(),
            *defines,
            *options,
            *tail,
        ]


def names_architecture(flags: Sequence[str]) -> bool:
    """Whether nvcc's flags say which architectures it compiles for."""
    return any(one.startswith(("-gencode", "--generate-code", "-arch", "--gpu-a")) for one in flags)


_CODE = re.compile(r"arch=compute_(?P<virtual>\w+),code=sm_(?P<real>\w+)$")
_CODES = r"arch=compute_\g<virtual>,code=[sm_\g<real>,compute_\g<virtual>]"


def with_ptx(flags: Sequence[str], arch: str) -> list[str]:
    """Return nvcc's flags so that a library carries PTX beside its machine code.

    Launches of the library can then be executed by the PTX machine; its machine code is the same.
    Where the flags name no architecture, it is `arch` (sm_90).
    """
    found = [_CODE.sub(_CODES, flag) for flag in flags]
    if not any(
        one.startswith(("-gencode", "--generate-code", "-arch", "--gpu-a")) for one in found
    ):
        number = arch.removeprefix("sm_")
        found.append(f"-gencode=arch=compute_{number},code=[sm_{number},compute_{number}]")
    return found


def build_library(
    units: Sequence[Unit],
    library: Path,
    *,
    every_text: Sequence[str],
    flags: BuildFlags,
    name: str,
    arch: str,
    counted: bool = False,
) -> None:
    """Compile units beside `library` and link them to it: it is there whole or not at all.

    The arguments are those of `compile_units`. Raises MissingToolError where a compiler is missing
    and BuildError with its log.
    """
    has_cuda = any(unit.is_cuda for unit in units)
    compiler = str(find_host_compiler())
    if has_cuda:
        find_nvcc()
    objects = compile_units(
        units,
        every_text=every_text,
        flags=flags,
        name=name,
        arch=arch,
        folder=library.parent,
        counted=counted,
    )
    if counted:
        counters = link_counters(compiler, library.parent)
        flags = replace(flags, ld_flags=(*flags.ld_flags, *counters))
    draft = library.with_suffix(".draft")
    link(objects, draft, flags=flags, has_cuda=has_cuda)
    draft.replace(library)


def link(objects: Sequence[Path], output: Path, *, flags: BuildFlags, has_cuda: bool) -> None:
    """Link the objects into a shared library. Raises BuildError with the linker's log."""
    libraries = torch_include().parent / "lib"
    names = ["c10", "torch_cpu", "torch", "torch_python"]
    command = [str(find_host_compiler()), "-shared", *map(str, objects), f"-L{libraries}"]
    if has_cuda:
        names += ["c10_cuda", "torch_cuda"]
        home = cuda_home()
        folders = (
            [home / "lib64", home / "lib64" / "stubs", home / "lib"] if home is not None else []
        )
        packages = Path(sysconfig.get_path("purelib")) / "nvidia"
        folders += [packages / name / "lib" for name in ("cu13", "cu12", "cuda_runtime")]
        present = [folder for folder in folders if folder.is_dir()]
        options = [f"-L{folder}" for folder in present]
        if any((folder / "libcudart.so").exists() for folder in present):
            cuda_runtime = [*options, "-lcudart"]
        else:
            versioned = [
                file.name for folder in present for file in sorted(folder.glob("libcudart.so.*"))
            ]
            cuda_runtime = [*options, f"-l:{versioned[0]}"] if versioned else options
        command += cuda_runtime
    command += [*(f"-l{name}" for name in names), *flags.ld_flags, "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise BuildError("the candidate does not link", clip_log(done.stdout + done.stderr))


@cache
def torch_include() -> Path:
    """Return the folder of torch's headers."""
    import torch

    return Path(torch.__file__).parent / "include"


@cache
def _system_includes() -> tuple[str, ...]:
    include = torch_include()
    folders = [include, include / "torch" / "csrc" / "api" / "include", *include_folders()]
    folders.append(Path(sysconfig.get_path("include")))
    return tuple(part for folder in folders for part in ("-isystem", str(folder)))


@cache
def _standard() -> str:
    """Return the C++ standard that this torch builds extensions with."""
    builder = torch_include().parent / "utils" / "cpp_extension.py"
    text = builder.read_text(encoding="utf-8", errors="replace")
    return "-std=c++20" if "-std=c++20" in text else "-std=c++17"


def _names_standard(flags: Sequence[str]) -> bool:
    return any(flag.startswith(("-std", "--std")) for flag in flags)
