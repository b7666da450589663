"""CUDA C++ to PTX or cubin by NVRTC: no GPU, no driver and no host compiler are needed.

References: NVRTC user guide (nvrtcCreateProgram, nvrtcCompileProgram). The library and CUDA's
headers come from pip's wheels or an installed toolkit, where cuda-pathfinder finds them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ptxsan.errors import CompileError, UsageError

_HEADER_SETS = ("cudart", "nvrtc", "cccl", "curand")
_HOST_ONLY = ("cub/device/", "cub/util_allocator")
_CRT = Path("crt") / "host_defines.h"
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


def available() -> bool:
    """Return whether NVRTC can be loaded here."""
    return library() is not None


@cache
def library() -> str | None:
    """Return the path of NVRTC's library; None where it cannot be loaded here."""
    try:
        _nvrtc().nvrtcVersion()
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return str(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except (UsageError, RuntimeError):  # what cuda-pathfinder raises for a missing library
        return None


def compile_ptx(
    source: str, *, arch: str, flags: Sequence[str] = (), name: str = "kernel.cu"
) -> str:
    """Return the PTX, with line information, of a CUDA C++ source for `arch` (sm_90 or sm_90a).

    `name` is the file that the line information speaks of; `flags` are NVRTC's own. Raises
    CompileError with the compiler's log, and UsageError where there is no NVRTC.
    """
    return compile_named(source, (), arch=arch, flags=flags, name=name)[0]


def compile_named(
    source: str,
    expressions: Sequence[str],
    *,
    arch: str,
    flags: Sequence[str] = (),
    name: str = "kernel.cu",
    headers: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, str]]:
    """Return the PTX of a source, and the name that each expression has in it.

    `expressions` name kernels and variables of the device, templates with their arguments
    (`scale<float, 4>`, `&table`): what is named is compiled. `headers` (name -> text) replace or
    add to those that sources include by habit. Raises as `compile_ptx` does.
    """
    # PTX is asked of the virtual architecture: with a real one NVRTC assembles it as well
    options = [*_options(arch.replace("sm_", "compute_"), flags), "-lineinfo"]
    with _program(source, expressions, options, name=name, headers=headers or {}) as program:
        nvrtc = _nvrtc()
        text: bytes = b" " * int(_require(*nvrtc.nvrtcGetPTXSize(program)))
        _require(*nvrtc.nvrtcGetPTX(program, text))
        lowered = {
            one: _require(*nvrtc.nvrtcGetLoweredName(program, one.encode())).decode()
            for one in expressions
        }
    return text.rstrip(b"\0").decode(errors="replace"), lowered


def compile_cubin(
    source: str, *, arch: str, flags: Sequence[str] = (), name: str = "kernel.cu"
) -> bytes:
    """Return the cubin of a CUDA C++ source for `arch`. Raises as `compile_ptx` does."""
    with _program(source, (), _options(arch, flags), name=name, headers={}) as program:
        nvrtc = _nvrtc()
        cubin: bytes = b" " * int(_require(*nvrtc.nvrtcGetCUBINSize(program)))
        _require(*nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


@contextlib.contextmanager
def _program(
    source: str,
    expressions: Sequence[str],
    options: Sequence[str],
    *,
    name: str,
    headers: Mapping[str, str],
) -> Iterator[Any]:
    """Yield a compiled program. Raises CompileError."""
    nvrtc = _nvrtc()
    known = {**_HEADERS, **cub_headers(), **headers}
    status, program = nvrtc.nvrtcCreateProgram(
        source.encode(),
        name.encode(),
        len(known),
        [text.encode() for text in known.values()],
        [header.encode() for header in known],
    )
    _require(status, "nvrtcCreateProgram")
    try:
        for expression in expressions:
            _require(*nvrtc.nvrtcAddNameExpression(program, expression.encode()), expression)
        encoded = [option.encode() for option in options]
        if nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0] != 0:
            raw: bytes = b" " * int(_require(*nvrtc.nvrtcGetProgramLogSize(program)))
            _require(*nvrtc.nvrtcGetProgramLog(program, raw))
            log = raw.rstrip(b"\0").decode(errors="replace")
            # What to install where a header of cuRAND is not there
            missing = re.search(r"(?:could|can)not open source file \"curand", log)
            remedy = (
                ": cuRAND's headers are missing (pip install 'ptxsan[curand]')" if missing else ""
            )
            raise CompileError(f"NVRTC does not compile the source{remedy}", log)
        yield program
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@cache
def cub_headers() -> Mapping[str, str]:
    """Return CUB's header of everything without what only nvcc compiles, where CUB is installed.

    Left out are the algorithms that the host launches, and the host's allocator. A kernel that
    includes the whole for a reduction of its block needs neither.
    """
    name = "cub/cub.cuh"
    for folder in include_folders():
        file = Path(folder) / name
        if file.is_file():
            found = re.findall(r"^#include <(cub/[^>]+)>", file.read_text(), re.MULTILINE)
            kept = [one for one in found if not one.startswith(_HOST_ONLY)]
            return {name: "#pragma once\n" + "".join(f"#include <{one}>\n" for one in kept)}
    return {}


def _options(arch: str, flags: Sequence[str]) -> list[str]:
    found = [f"--gpu-architecture={arch}", "-default-device", "--device-int128"]
    found.append("--pre-include=math.h")  # nvcc knows INFINITY and NAN without any include
    if not any("-std" in flag for flag in flags):
        found.append("--std=c++17")
    return [*found, *(f"-I{folder}" for folder in include_folders()), *flags]


@cache
def include_folders() -> tuple[str, ...]:
    """Return the folders of CUDA's headers that are there.

    The headers below `crt` have a wheel of their own, which torch's wheels do not ask for. Where
    it is missing they are a toolkit's, or those that Triton brings.
    """
    from cuda.pathfinder import find_nvidia_header_directory

    found = [find_nvidia_header_directory(name) for name in _HEADER_SETS]
    folders = [folder for folder in found if folder]
    if not any((Path(folder) / _CRT).is_file() for folder in folders):
        folders += [str(folder) for folder in _other_folders() if (folder / _CRT).is_file()][:1]
    return tuple(dict.fromkeys(folders))


def _other_folders() -> Iterator[Path]:
    """Yield the header folders of installed toolkits, then of Triton, which is not imported."""
    places = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        places.append(str(Path(nvcc).resolve().parent.parent))
    for place in (*places, "/usr/local/cuda"):
        yield Path(place) / "include"
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        yield Path(triton.origin).parent / "backends" / "nvidia" / "include"


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise UsageError(
            f"CUDA C++ is compiled by NVRTC and {error.name} is not installed; install it with: "
            "pip install 'ptxsan[cuda]'"
        ) from None
    return nvrtc


def _require(status: Any, *values: Any) -> Any:
    if status != 0:
        raise UsageError(f"NVRTC failed with {status}; reinstall nvidia-cuda-nvrtc")
    return values[0] if values else None
