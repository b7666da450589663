"""CUDA C++ extensions on a machine without a GPU: host code runs, launches go to the PTX machine.

The extension's own C++ is compiled against torch's headers and ptxsan's CUDA runtime, its kernels
by NVRTC, and the module that comes out is a torch extension like any other, on CPU tensors. All of
it is the candidate's code and runs in the candidate's process only. What it says of devices is
reworded where it is compiled: `is_cuda` asks for the CPU, `kCUDA` is the CPU.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuassay import settings
from cuassay.build.cuda.host_lines import counting_flags, link_counters
from cuassay.build.cuda.library import import_library
from cuassay.build.sources import (
    absent_header,
    absent_library_of_ranks,
    build_lock,
    clip_log,
    write_text,
)
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import BuildFlags
from cuassay.model.digest import sha256_fields

if TYPE_CHECKING:
    from cuassay.build.machine.hosted import HostedLaunches
    from ptxsan.host.split import Rename

VARIABLE = "CUASSAY_TORCH_HEADERS"
_NATIVE = Path(__file__).parent / "native"
_PRELUDE, _DEVICE = "torch_host.h", "torch_device.h"
_BEYOND_LIGHT = frozenset(
    {"nn", "jit", "autograd", "optim", "data", "serialize", "fft", "linalg", "special", "nested",
     "sparse", "python"}
)  # fmt: skip
_DEVICE_FLAGS = ("--use_fast_math", "-use_fast_math", "--fmad", "-fmad", "--ftz", "-ftz",
                 "--prec-div", "-prec-div", "--prec-sqrt", "-prec-sqrt", "-D", "-U")  # fmt: skip
_CUDA_LIBRARIES = ("-lcuda", "-lcudart", "-lcublas", "-lcudnn", "-lcurand", "-lcusparse",
                   "-lcusolver", "-lcufft", "-lnvrtc", "-lc10_cuda", "-ltorch_cuda")  # fmt: skip
_LIBRARIES = {"cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT", "curand": "cuRAND",
              "cusparse": "cuSPARSE", "cusolver": "cuSOLVER", "nvrtc": "NVRTC", "nccl": "NCCL",
              "cuda": "the CUDA runtime", "cu": "the CUDA driver"}  # fmt: skip
_MACROS = (  # c10/macros/Macros.h: where a function runs has to be seen
    "C10_HOST_DEVICE=__host__ __device__", "C10_DEVICE=__device__", "C10_HOST=__host__",
    "C10_ALWAYS_INLINE=__forceinline__",
)  # fmt: skip
_DEVICE_WORDS = frozenset(
    {"c10", "at", "torch", "gpuAtomicAdd", "gpuAtomicAddNoReturn", "C10_HOST_DEVICE"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedUnit:
    """A translation unit: its text, and the file name that messages and line numbers use.

    `folder` is where its own headers lie.
    """

    name: str
    text: str
    folder: Path | None = None


def build_hosted(
    name: str, units: Sequence[HostedUnit], flags: BuildFlags, *, folder: Path
) -> types.ModuleType:
    """Build units into the extension `name` in `folder`, import it, and watch what it launches.

    Raises BuildError with the compiler's log where the fault is certainly the candidate's, and
    MissingToolError for all else: a compiler, a CUDA library, or what the CUDA runtime for the CPU
    does not stand in for.
    """
    from ptxsan.host.build import Linked

    library = folder / f"{name}.so"
    if not library.is_file():
        with build_lock(folder):
            if not library.is_file():
                # Build a library, or raise what an earlier process learned of these very sources. A
                # candidate that goes on without its kernels would compile them in vain in every
                # process.
                kept = library.with_suffix(".missing")
                if kept.is_file():
                    raise MissingToolError(kept.read_text(encoding="utf-8"))
                try:
                    _build(name, units, flags, library)
                except MissingToolError as error:
                    write_text(kept, str(error))
                    raise

    launches = _launches(folder)
    try:
        launches.runtime.register(Linked.read(library))
        return launches.watch(import_library(name, library))
    except (ImportError, OSError) as error:
        _, found, symbol = str(error).partition("undefined symbol: ")
        name = symbol.strip()
        holder = next((lib for prefix, lib in _LIBRARIES.items() if name.startswith(prefix)), "")
        told = f"{holder} ({name})" if holder else name
        what = f"calls {told}" if found else f"does not load ({error})"
        raise MissingToolError(
            f"the CUDA extension {what}, which cuassay's CUDA runtime for the CPU does not cover; "
            "judge it on an NVIDIA GPU"
        ) from None


def _build(name: str, units: Sequence[HostedUnit], flags: BuildFlags, library: Path) -> None:
    from ptxsan.errors import CompileError, UsageError
    from ptxsan.host.build import NATIVE, compile_unit, find_compiler, link
    from ptxsan.nvrtc import include_folders

    try:
        compiler = find_compiler()
        beyond = any(_needs_all_of_torch(unit.text) for unit in units)
        own = [unit.folder for unit in units if unit.folder is not None]
        from ptxsan.host.build import Options

        folder = headers_folder()
        ready = (folder / f"{_PRELUDE}.gch").is_file() and not beyond
        given = [flag for flag in (*flags.cflags, *flags.cuda_cflags) if flag.startswith("-D")]
        defines = [f"TORCH_EXTENSION_NAME={name}", *(flag[2:] for flag in given)]
        folders = [
            *own,
            *(Path(flag[2:]) for flag in (*flags.cflags, *flags.cuda_cflags) if flag[:2] == "-I"),
        ]
        options = Options(
            prelude=(folder if ready else _NATIVE) / _PRELUDE,
            first=_first(all_of_torch=beyond),
            system=_system(),
            defines=tuple(dict.fromkeys(defines)),
            expanded=_MACROS,
            folders=tuple(dict.fromkeys(folders)),
            host_flags=(
                *(("-DCUASSAY_ALL_OF_TORCH",) if beyond else ()),
                *counting_flags(
                    compiler, [*_system(), *map(Path, include_folders()), _NATIVE, NATIVE]
                ),
            ),
            device_flags=tuple(
                flag for flag in flags.cuda_cflags if flag.startswith(_DEVICE_FLAGS)
            ),
            rename=reworded(),
            device_prelude=f'#include "{_DEVICE}"\n',
            device_words=_DEVICE_WORDS,
            device_headers={_DEVICE: (_NATIVE / _DEVICE).read_text(encoding="utf-8")},
            compiler=compiler,
        )
        compiled = []
        for number, unit in enumerate(units):
            path = library.parent / "src" / str(number) / unit.name
            write_text(path, unit.text)
            compiled.append(compile_unit(path, library.parent / f"{name}.{number}", options))
        import torch

        libraries = Path(torch.__file__).parent / "lib"
        given = [flag for flag in flags.ld_flags if flag and not flag.startswith(_CUDA_LIBRARIES)]
        link(
            compiled, library, runtime=_runtime_library(library.parent), compiler=compiler,
            flags=[f"-L{libraries}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", *given,
                   *link_counters(compiler, library.parent)],
        )  # fmt: skip
    except UsageError as error:
        raise MissingToolError(str(error)) from None
    except CompileError as error:
        if unjudged := absent_library_of_ranks(error.log):
            raise MissingToolError(unjudged) from None
        missing = absent_header(error.log)
        if missing:
            raise MissingToolError(
                f"the candidate includes {missing}, which is not installed here and which "
                "cuassay's CUDA runtime for the CPU does not stand in for; judge it on a GPU"
            ) from None
        if _undeclared_anywhere(error.log, [unit.text for unit in units]):
            raise BuildError(str(error).split("\n", 1)[0], clip_log(error.log)) from None
        found = _ERROR.search(error.log)
        first = found[0] if found else error.log.strip().partition("\n")[0]
        raise MissingToolError(
            "the CUDA extension does not compile against cuassay's CUDA runtime for the CPU "
            f"({first[:300]}): the candidate or that runtime may be at fault; judge "
            "it on an NVIDIA GPU"
        ) from None


# How g++ and NVRTC say that nothing of a name is declared.
_UNDECLARED = re.compile(
    r"^[^\n:(]+[:(](?P<line>\d+).*?error: (?:"
    r"[‘'](?P<host>\w+)[’'] was not declared in this scope|"
    r'identifier "(?P<device>\w+)" is undefined)',
    re.MULTILINE,
)
_LIBRARY_NAME = re.compile(r"(?i)(cublas|cudnn|cufft|curand|cusparse|cusolver|nvrtc|nccl)")
_ERROR = re.compile(r"^[^\n]*\berror: [^\n]*", re.MULTILINE)


def _undeclared_anywhere(log: str, texts: Sequence[str]) -> bool:
    """Whether every error is of a name that no header and no other line of the sources has.

    Such a source compiles nowhere. All else may be what the CUDA runtime for the CPU lacks.
    """
    from ptxsan.host.tokens import tokenize

    faults = [(one["host"] or one["device"], int(one["line"])) for one in _UNDECLARED.finditer(log)]
    if not faults or len(faults) != len(_ERROR.findall(log)):
        return False
    names = {name for name, _ in faults}
    if any(_LIBRARY_NAME.match(name) for name in names):
        return False  # its header may not be installed, or ours may lack the function
    # Tokens, since a comment that names a function declares nothing.
    tokens = [(text, token) for text in texts for token in tokenize(text)]
    for name in names:
        word = re.compile(rf"\b{name}\b")
        uses = {(text, text.count("\n", 0, t.start)) for text, t in tokens if word.search(t.text)}
        if len(uses) > len({line for one, line in faults if one == name}):
            return False
    return not any(map(_in_headers, names))


def _in_headers(name: str) -> bool:
    """Whether an installed header of torch, CUDA or the system has a word."""
    from ptxsan.nvrtc import include_folders

    folders = [*map(str, _system()), *include_folders(), "/usr/include", str(_NATIVE)]
    command = ["grep", "-rqwF", "--", name, *(one for one in folders if Path(one).is_dir())]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _needs_all_of_torch(text: str) -> bool:
    """Whether a source names parts of torch's C++ frontend beyond tensors and operators."""
    from ptxsan.host.tokens import tokenize

    tokens = tokenize(text)
    return any(
        first.text == "torch" and colons.text == "::" and last.text in _BEYOND_LIGHT
        for first, colons, last in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _first(*, all_of_torch: bool) -> tuple[Path, ...]:
    folders = (_NATIVE / "stand_in", _NATIVE)
    return folders if all_of_torch else (_NATIVE / "light", *folders)


@cache
def _system() -> tuple[Path, ...]:
    import torch

    include = Path(torch.__file__).parent / "include"
    python = Path(sysconfig.get_path("include"))
    return include, include / "torch" / "csrc" / "api" / "include", python


def reworded() -> Rename:
    """Return what the host's text says of devices here: tensors lie on the CPU."""
    words = {"is_cuda": "is_cpu", "kCUDA": "kCPU", "is_cpu": "is_cuda"}
    devices = ('"cuda"', '"cuda:0"')

    def rename(tokens: Any, index: int) -> str | None:
        text = tokens[index].text
        before = tokens[index - 1].text if index else ""
        if text in words:
            return words[text]
        if text in devices:
            return '"cpu"'
        if text == "CUDA" and (
            before == "::" or (index >= 4 and tokens[index - 4].text == "TORCH_LIBRARY_IMPL")
        ):
            return "CPU"
        behind = [one.text for one in tokens[index + 1 : index + 3]]
        if text == "cuda" and before in (".", "->") and behind == ["(", ")"]:
            return "contiguous"  # a tensor that is there already is returned as it is
        return None

    return rename


def headers_folder() -> Path:
    """Return the folder of torch's headers precompiled: by torch, compiler and our own headers."""
    explicit = settings.get(VARIABLE)
    return Path(explicit) if explicit else headers_place()


@cache
def headers_place() -> Path:
    """Return where this user's precompiled headers lie; workers are told by $CUASSAY_TORCH_HEADERS.

    An absolute path also where the compiler or torch is missing.
    """
    from ptxsan.home import runtime_dir
    from ptxsan.host.build import NATIVE

    compiler = shutil.which(os.environ.get("CXX") or "g++") or ""
    version = ""
    if compiler:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
        version = done.stdout.partition("\n")[0]
    texts = [file.read_text() for file in sorted(NATIVE.iterdir()) if file.is_file()]
    texts.append((_NATIVE / _PRELUDE).read_text())
    spec = importlib.util.find_spec("torch")  # found, not imported: that takes seconds
    where = str(spec.origin) if spec is not None else ""
    fields = (
        importlib.metadata.version("torch"),
        where,
        platform.python_version(),
        compiler,
        version,
    )
    return runtime_dir() / f"torch-headers-{sha256_fields(*fields, *texts)[:20]}"


@cache
def headers_digest() -> str:
    """Return the identity of our own headers and runtime: what is built against them follows it.

    The Python code that prepares a source for the two compilers counts as well: some headers are
    strings in it.
    """
    from ptxsan.host.build import NATIVE

    files = [file for root in (NATIVE, _NATIVE) for file in root.rglob("*") if file.is_file()]
    files += [Path(__file__), NATIVE.parent.parent / "nvrtc.py", *NATIVE.parent.glob("*.py")]
    return sha256_fields(*(file.read_bytes() for file in sorted(files)))


def prepare_headers(notify: Callable[[str], None] = lambda text: None) -> None:
    """Precompile torch's headers and the CUDA runtime for extensions, unless that was done.

    A minute of one processor and 0.5 GB once for each torch and compiler; in a process that no
    candidate's code runs in, for every later build relies on it. Without it builds take longer.
    """
    from ptxsan.errors import PtxsanError
    from ptxsan.host.build import (
        Options,
        find_compiler,
        host_options,
        run_compiler,
        runtime_library,
    )
    from ptxsan.nvrtc import include_folders

    folder = headers_place()
    target = folder / f"{_PRELUDE}.gch"
    if target.is_file():
        return
    try:
        compiler = find_compiler()
        with build_lock(folder):
            if target.is_file():
                return
            notify("precompiling torch's headers for CUDA extensions, once: about a minute")
            runtime_library(folder, compiler=compiler)
            write_text(folder / _PRELUDE, (_NATIVE / _PRELUDE).read_text(encoding="utf-8"))
            options = Options(first=_first(all_of_torch=False), system=_system(), compiler=compiler)
            draft = folder / f".{_PRELUDE}.{os.getpid()}"
            system = (*_system(), *map(Path, include_folders()))
            command = [compiler, "-x", "c++-header", "-fPIC", "-w", "-fno-strict-aliasing"]
            command += [*host_options(options, system), str(folder / _PRELUDE), "-o", str(draft)]
            run_compiler(command, "torch's headers cannot be precompiled")
            draft.replace(target)
    except (PtxsanError, OSError) as error:
        notify(f"torch's headers are not precompiled: {str(error).splitlines()[0]}")


def _runtime_library(folder: Path) -> Path:
    """Return the CUDA runtime: the one beside the precompiled headers, else made in `folder`."""
    from ptxsan.host.build import find_compiler, runtime_library

    ready = headers_folder() / "libcuda_host.so"
    return ready if ready.is_file() else runtime_library(folder, compiler=find_compiler())


_connected: HostedLaunches | None = None


def _launches(folder: Path) -> HostedLaunches:
    """Return this process's CUDA runtime, connected to the machine."""
    global _connected
    from cuassay.build.machine import candidates
    from cuassay.build.machine.hosted import HostedLaunches

    if candidates.current is None:
        raise MissingToolError(
            f"CUDA extensions run without a GPU in the PTX machine, and {candidates.missing()}"
        )
    if _connected is None:
        _connected = HostedLaunches.connect(_runtime_library(folder), candidates.current)
    _connected.serve(candidates.current)
    return _connected
