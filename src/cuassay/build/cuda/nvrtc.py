"""Raw CUDA C++ to cubin or PTX: NVRTC through ptxsan, nvcc where that is not enough.

NVRTC compiles in a fraction of a second since it reads no host headers. A source that NVRTC
refuses is given to nvcc, where there is one, before it is called broken: sources written for
nvcc may include host headers. Reference: CUDA compiler driver manual (-cubin).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuassay import settings
from cuassay.build.cuda.toolkit import cuda_home, find_nvcc, include_folders
from cuassay.build.sources import absent_library_of_ranks, clip_log
from cuassay.errors import BuildError, MissingToolError

_FLAGS_OF_NVCC = (
    "-O",
    "-Xptxas",
    "-Xcompiler",
    "-lineinfo",
    "--threads",
    "-t",
    "-gencode",
    "-arch",
)
_TIMEOUT_S = 240.0


def compile_cubin(source: str, *, arch: str, flags: Sequence[str] = ()) -> bytes:
    """Return the cubin of a CUDA C++ source for `arch` (sm_90 or sm_90a).

    Raises BuildError with the compiler's log where no compiler accepts the source, and
    MissingToolError where neither NVRTC nor nvcc is there.
    """
    return _compiled(_Order(source=source, arch=arch, flags=tuple(flags)))


def compile_ptx(
    source: str, *, arch: str, flags: Sequence[str] = (), name: str = "candidate.cu"
) -> str:
    """Return the PTX of a CUDA C++ source with line information; needs no GPU and no driver.

    `name` is the file that the line information speaks of. With CUASSAY_CUDA_COMPILER=nvcc
    the toolkit's own compiler is asked first. Raises as `compile_cubin` does.
    """
    order = _Order(source=source, arch=arch, flags=tuple(flags), product="PTX", name=name)
    return _compiled(order).rstrip(b"\0").decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is to be compiled, and to what: CUBIN or PTX."""

    source: str
    arch: str
    flags: tuple[str, ...]
    product: str = "CUBIN"
    name: str = "candidate.cu"


def find_nvrtc() -> str | None:
    """Return the path of NVRTC's library; None where ptxsan cannot load it."""
    try:
        from ptxsan import nvrtc
    except ImportError:
        return None
    return nvrtc.library()


def _compiled(order: _Order) -> bytes:
    wants_nvcc = settings.get("CUASSAY_CUDA_COMPILER") == "nvcc" and cuda_home() is not None
    if wants_nvcc or find_nvrtc() is None:
        return _compile_with_nvcc(order)
    from ptxsan import nvrtc
    from ptxsan.errors import CompileError, UsageError

    flags = [f"-I{folder}" for folder in include_folders()]
    flags += [flag for flag in order.flags if not flag.startswith(_FLAGS_OF_NVCC)]
    try:
        if order.product == "CUBIN":
            return nvrtc.compile_cubin(order.source, arch=order.arch, flags=flags, name=order.name)
        text = nvrtc.compile_ptx(order.source, arch=order.arch, flags=flags, name=order.name)
        return text.encode()
    except UsageError as error:
        raise MissingToolError(f"{error}, or set CUDA_HOME to a toolkit with nvcc") from None
    except CompileError as refusal:
        if unjudged := absent_library_of_ranks(refusal.log):
            raise MissingToolError(unjudged) from None
        if cuda_home() is None:
            raise BuildError(
                "NVRTC does not compile the candidate", clip_log(refusal.log)
            ) from None
        return _compile_with_nvcc(order)


def _compile_with_nvcc(order: _Order) -> bytes:
    import tempfile

    nvcc = find_nvcc()
    kind = order.product.lower()
    with tempfile.TemporaryDirectory(prefix="cuassay-") as name:
        input_file, output = Path(name) / Path(order.name).name, Path(name) / f"candidate.{kind}"
        input_file.write_text(order.source, encoding="utf-8")
        command = [str(nvcc), f"-{kind}", f"-arch={order.arch}", "-o", str(output)]
        command += ["-lineinfo"] if order.product == "PTX" else []
        command += [str(input_file), *(f"-I{folder}" for folder in include_folders())]
        kept = [flag for flag in order.flags if not flag.startswith(("-gencode", "-arch", "--gpu"))]
        command += kept if any("-std" in flag for flag in kept) else ["-std=c++17", *kept]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            log = (done.stdout + done.stderr).replace(f"{name}/", "")
            raise BuildError("nvcc does not compile the candidate", clip_log(log))
        return output.read_bytes()
