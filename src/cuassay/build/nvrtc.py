"""Raw CUDA C++ to cubin: NVRTC through its C interface, nvcc where that is not enough.

NVRTC compiles in a fraction of a second since it reads no host headers. A source that NVRTC
refuses is given to nvcc, where there is one, before it is called broken: sources written for
nvcc may include host headers. References: NVRTC user guide (nvrtcCompileProgram and its
siblings), CUDA compiler driver manual (-cubin).
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cuassay.build.sources import clip_log
from cuassay.build.toolkit import cuda_home, find_nvcc, include_folders
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
    return _compile(source, "CUBIN", arch=arch, flags=flags)


def compile_ptx(source: str, *, arch: str, flags: Sequence[str] = ()) -> str:
    """Return the PTX of a CUDA C++ source for the virtual GPU of `arch`; raises as above."""
    made = _compile(source, "PTX", arch=arch.replace("sm_", "compute_"), flags=flags)
    return made.rstrip(b"\0").decode()


def _compile(source: str, what: str, *, arch: str, flags: Sequence[str]) -> bytes:
    library = find_nvrtc()
    if library is None:
        return compile_with_nvcc(source, arch=arch, flags=flags, what=what)
    try:
        return _compile_with_nvrtc(library, source, what, arch=arch, flags=flags)
    except _Refused as refusal:
        if cuda_home() is None:
            raise BuildError(
                "NVRTC does not compile the candidate", clip_log(str(refusal))
            ) from None
        return compile_with_nvcc(source, arch=arch, flags=flags, what=what)


@cache
def find_nvrtc() -> ctypes.CDLL | None:
    """Load libnvrtc from pip's wheels, the toolkit or the system; None where there is none."""
    wheels = importlib.util.find_spec("nvidia")  # wherever pip put them, not this prefix alone
    packages = [Path(place) for place in (wheels and wheels.submodule_search_locations) or ()]
    folders = [p / name / "lib" for p in packages for name in ("cu13", "cu12", "cuda_nvrtc")]
    home = cuda_home()
    folders += [home / "lib64", home / "lib"] if home is not None else []
    candidates = [str(folder / name) for folder in folders for name in _NAMES]
    for place in (*(place for place in candidates if Path(place).exists()), *_NAMES):
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def _compile_with_nvrtc(
    library: ctypes.CDLL, source: str, what: str, *, arch: str, flags: Sequence[str]
) -> bytes:
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(_HEADERS))(*(name.encode() for name in _HEADERS))
    texts = (ctypes.c_char_p * len(_HEADERS))(*(text.encode() for text in _HEADERS.values()))
    created = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"candidate.cu", len(_HEADERS), texts, names
    )
    _require(library, created, "nvrtcCreateProgram")
    try:
        options = _nvrtc_options(arch, flags)
        encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), encoded) != 0:
            raise _Refused(_text(library, program, "ProgramLog").decode(errors="replace"))
        return _text(library, program, what)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc_options(arch: str, flags: Sequence[str]) -> list[str]:
    options = [f"--gpu-architecture={arch}", "-default-device"]
    if not any("-std" in flag for flag in flags):
        options.append("--std=c++17")
    options += [f"-I{folder}" for folder in include_folders()]
    return options + [flag for flag in flags if not flag.startswith(_FLAGS_OF_NVCC)]


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


def compile_with_nvcc(
    source: str, *, arch: str, flags: Sequence[str] = (), what: str = "CUBIN"
) -> bytes:
    """Return what `nvcc -cubin` or `nvcc -ptx` makes. Raises BuildError with its log."""
    import tempfile

    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory(prefix="cuassay-") as name:
        input_file, output = Path(name) / "candidate.cu", Path(name) / "candidate.out"
        input_file.write_text(source, encoding="utf-8")
        command = [
            str(nvcc),
            f"-{what.lower()}",
            f"-arch={arch}",
            "-o",
            str(output),
            str(input_file),
        ]
        command += [*(f"-I{folder}" for folder in include_folders()), *_nvcc_flags(flags)]
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


def _nvcc_flags(flags: Sequence[str]) -> list[str]:
    kept = [flag for flag in flags if not flag.startswith(("-gencode", "-arch", "--gpu"))]
    return kept if any("-std" in flag for flag in kept) else ["-std=c++17", *kept]
