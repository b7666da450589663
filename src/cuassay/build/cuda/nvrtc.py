"""Raw CUDA C++ to cubin or PTX: NVRTC through its C interface, nvcc where that is not enough.

NVRTC compiles in a fraction of a second since it reads no host headers. A source that NVRTC
refuses is given to nvcc, where there is one, before it is called broken: sources written for
nvcc may include host headers. References: NVRTC user guide (nvrtcCompileProgram and its
siblings), CUDA compiler driver manual (-cubin).
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cuassay import settings
from cuassay.build.cuda.toolkit import cuda_home, find_nvcc, include_folders, pip_folders
from cuassay.build.sources import clip_log
from cuassay.errors import BuildError, MissingToolError

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
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
_HEADERS = {  # what sources include by habit and NVRTC does not ship
    "stdint.h": "typedef signed char int8_t; typedef unsigned char uint8_t;\n"
    "typedef short int16_t; typedef unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned int uint32_t;\n"
    "typedef long long int64_t; typedef unsigned long long uint64_t;\n"
    "typedef unsigned long long uintptr_t; typedef long long intptr_t;\n",
    "cstdint": "#include <stdint.h>\n",
    "stddef.h": "typedef unsigned long size_t; typedef long ptrdiff_t;\n",
    "math.h": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fffffff)\n#endif\n",
    "cmath": "#include <math.h>\n",
    "float.h": "#define FLT_MAX 3.402823466e+38F\n#define FLT_MIN 1.175494351e-38F\n"
    "#define FLT_EPSILON 1.192092896e-07F\n",
    "cfloat": "#include <float.h>\n",
}


class _Refused(Exception):
    """NVRTC did not accept the source; the message is its log."""


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


def _compiled(order: _Order) -> bytes:
    library = find_nvrtc()
    wants_nvcc = settings.get("CUASSAY_CUDA_COMPILER") == "nvcc" and cuda_home() is not None
    if library is None or wants_nvcc:
        return _compile_with_nvcc(order)
    try:
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(_HEADERS))(*(name.encode() for name in _HEADERS))
        texts = (ctypes.c_char_p * len(_HEADERS))(*(text.encode() for text in _HEADERS.values()))
        created = library.nvrtcCreateProgram(
            ctypes.byref(program),
            order.source.encode(),
            order.name.encode(),
            len(_HEADERS),
            texts,
            names,
        )
        _require(library, created, "nvrtcCreateProgram")
        try:
            # PTX is asked of the virtual architecture: with a real one NVRTC assembles it as well
            virtual = order.arch.replace("sm_", "compute_")
            target = virtual if order.product == "PTX" else order.arch
            options = [f"--gpu-architecture={target}", "-default-device"]
            options += ["-lineinfo"] if order.product == "PTX" else []
            options += ["--pre-include=math.h"]  # nvcc knows INFINITY and NAN without any include
            if not any("-std" in flag for flag in order.flags):
                options.append("--std=c++17")
            options += [f"-I{folder}" for folder in include_folders()]
            options = options + [
                flag for flag in order.flags if not flag.startswith(_FLAGS_OF_NVCC)
            ]
            encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if library.nvrtcCompileProgram(program, len(options), encoded) != 0:
                raise _Refused(_text(library, program, "ProgramLog").decode(errors="replace"))
            return _text(library, program, order.product)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))
    except _Refused as refusal:
        if cuda_home() is None:
            raise BuildError(
                "NVRTC does not compile the candidate", clip_log(str(refusal))
            ) from None
        return _compile_with_nvcc(order)


@cache
def find_nvrtc() -> ctypes.CDLL | None:
    """Load libnvrtc from pip's wheels, the toolkit or the system; None where there is none."""
    wheels = ("cu13", "cu12", "cuda_nvrtc")
    folders = [folder / name / "lib" for folder in pip_folders() for name in wheels]
    home = cuda_home()
    folders += [home / "lib64", home / "lib"] if home is not None else []
    candidates = [str(folder / name) for folder in folders for name in _NAMES]
    for place in (*(place for place in candidates if Path(place).exists()), *_NAMES):
        try:
            _load_builtins(Path(place).parent)
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def _load_builtins(folder: Path) -> None:
    """Load the library that NVRTC opens by its bare name when it compiles, if it lies beside."""
    for place in sorted(folder.glob("libnvrtc-builtins.so.*")) if folder.is_absolute() else ():
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(place), mode=ctypes.RTLD_GLOBAL)
            return


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _require(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _require(library, getattr(library, f"nvrtcGet{what}")(program, buffer), what)
    content = buffer.raw[: size.value]
    return content.rstrip(b"\0") if what == "ProgramLog" else content


def _require(library: ctypes.CDLL, status: int, what: str) -> None:
    if status != 0:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        reason = library.nvrtcGetErrorString(status)
        raise MissingToolError(
            f"NVRTC failed in {what} with status {status} ({(reason or b'').decode()}); "
            "reinstall nvidia-cuda-nvrtc or set CUDA_HOME to a toolkit with nvcc"
        )


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
