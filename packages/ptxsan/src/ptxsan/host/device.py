"""The device's part of a program: NVRTC's PTX of it, with every kernel that the host launches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptxsan.errors import CompileError
from ptxsan.isa import architecture_of
from ptxsan.nvrtc import compile_named, include_folders

_OF_TWO = ("atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "pow", "remainder")
# What nvcc knows of the host's headers in device code, for NVRTC, on an LP64 host.
_HEADERS = {
    "stdint.h": "#pragma once\n"
    "typedef signed char int8_t; typedef unsigned char uint8_t;\n"
    "typedef short int16_t; typedef unsigned short uint16_t;\n"
    "typedef int int32_t; typedef unsigned int uint32_t;\n"
    "typedef long int64_t; typedef unsigned long uint64_t;\n"
    "typedef unsigned long uintptr_t; typedef long intptr_t;\n"
    "typedef unsigned int uint; typedef unsigned char uchar; typedef unsigned short ushort;\n"
    "typedef unsigned long ulong; typedef long ssize_t; typedef long ptrdiff_t;\n",
    "math.h": "#pragma once\n"
    "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fffffff)\n#define HUGE_VALF INFINITY\n#endif\n"
    "#define M_PI 3.14159265358979323846\n#define M_PI_2 1.57079632679489661923\n"
    "#define M_PI_4 0.78539816339744830962\n#define M_1_PI 0.31830988618379067154\n"
    "#define M_2_PI 0.63661977236758134308\n#define M_2_SQRTPI 1.12837916709551257390\n"
    "#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n"
    "#define M_E 2.7182818284590452354\n#define M_LN2 0.69314718055994530942\n"
    "#define M_LN10 2.30258509299404568402\n#define M_LOG2E 1.4426950408889634074\n",
    "float.h": "#pragma once\n"
    "#define FLT_MAX 3.402823466e+38F\n#define FLT_MIN 1.175494351e-38F\n"
    "#define FLT_EPSILON 1.192092896e-07F\n#define DBL_MAX 1.7976931348623157e+308\n"
    "#define DBL_MIN 2.2250738585072014e-308\n#define DBL_EPSILON 2.2204460492503131e-16\n",
    # nvcc reads the other spellings of g++ too.
    "gnu_words.h": "#pragma once\n#define __asm__ asm\n#define __volatile__ volatile\n"
    "#define __inline__ inline\n#define __inline inline\n"
    "__host__ __device__ constexpr int __builtin_clz(unsigned value) {\n"
    "  int zeros = 0;\n  for (; !(value >> 31); value <<= 1) ++zeros;\n  return zeros;\n}\n",
    # cuda_device_runtime_api.h, which NVRTC has not; types are made of the host's functions
    "dependent_launch.h": "#pragma once\ncudaError_t cudaDriverGetVersion(int* version);\n"
    "__device__ inline void cudaTriggerProgrammaticLaunchCompletion() {\n"
    '  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");\n}\n'
    "__device__ inline void cudaGridDependencySynchronize() {\n"
    '  asm volatile("griddepcontrol.wait;" ::: "memory");\n}\n',
    # The host's <cmath> takes a float and a double, or two integers, as doubles; NVRTC's functions
    # of two are ambiguous then.
    "mixed_math.h": "#pragma once\n"
    "template <class A, class B> struct ptxsan_mixed {};\n"
    "template <> struct ptxsan_mixed<float, double> { using type = double; };\n"
    "template <> struct ptxsan_mixed<double, float> { using type = double; };\n"
    "template <> struct ptxsan_mixed<int, int> { using type = double; };\n"
    + "".join(
        "template <class A, class B> __host__ __device__ inline\n"
        f"typename ptxsan_mixed<A, B>::type {name}(A a, B b) {{\n"
        f"  return {name}(static_cast<double>(a), static_cast<double>(b));\n}}\n"
        for name in _OF_TWO
    ),
    "stdlib.h": "#pragma once\n",  # cuda.h includes it, for nothing
    "limits.h": "#pragma once\n"
    "#define CHAR_BIT 8\n#define INT_MAX 2147483647\n#define INT_MIN (-2147483647 - 1)\n"
    "#define UINT_MAX 4294967295U\n#define LONG_MAX 9223372036854775807L\n"
    "#define LONG_MIN (-LONG_MAX - 1L)\n#define ULONG_MAX 18446744073709551615UL\n"
    "#define LLONG_MAX 9223372036854775807LL\n#define LLONG_MIN (-LLONG_MAX - 1LL)\n"
    "#define SCHAR_MAX 127\n#define SHRT_MAX 32767\n#define UCHAR_MAX 255\n"
    "#define USHRT_MAX 65535\n#define INT32_MAX INT_MAX\n#define INT32_MIN INT_MIN\n"
    "#define UINT32_MAX UINT_MAX\n#define INT64_MAX LONG_MAX\n#define INT64_MIN LONG_MIN\n"
    "#define UINT64_MAX ULONG_MAX\n#define UINT8_MAX 255\n#define INT8_MAX 127\n"
    "#define INT8_MIN (-128)\n#define UINT16_MAX 65535\n#define SIZE_MAX ULONG_MAX\n",
}
_ALWAYS = ("stdint.h", "math.h", "float.h", "limits.h", "gnu_words.h", "mixed_math.h",
           "dependent_launch.h")  # fmt: skip
# libcu++ has the standard library for the device; reading it takes NVRTC up to a second.
_STANDARD = {
    "min": "algorithm", "max": "algorithm", "clamp": "algorithm", "swap": "utility",
    "numeric_limits": "limits", "array": "array", "tuple": "tuple", "make_tuple": "tuple",
    "complex": "complex", "optional": "optional", "atomic": "atomic", "bit_cast": "bit",
}  # fmt: skip
_IN_STD = re.compile(r"\bstd\s*::\s*(\w+)")
_PREFERRED = ("type_traits", "utility", "cmath")  # whatever else is named `std::`
_FAULT = re.compile(r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?:catastrophic )?error", re.MULTILINE)
_ENUMERATED = re.compile(r"\b(FP_(?:NAN|INFINITE|ZERO|SUBNORMAL|NORMAL))\s*=[^=]")
_MARK = re.compile(r'^#line (?P<line>\d+)(?: "(?P<file>[^"\n]*)")?.*$', re.MULTILINE)
_ROUNDS, _LARGE = 24, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """PTX, and what each expression of a kernel or variable is called in it."""

    ptx: str
    names: Mapping[str, str]


def compile_device(
    text: str,
    expressions: Sequence[str],
    *,
    doubtful: Sequence[tuple[int, int]],
    name: str,
    arch: str = "",
    flags: Sequence[str] = (),
    prelude: str = "",
    headers: Mapping[str, str] | None = None,
) -> DeviceCode:
    """Compile the device's text of a split source, with what the host launches of it.

    `arch` is such as sm_80; else sm_90, or sm_90a where the text needs it. Declarations on the
    `doubtful` lines go where they do not compile, of those around a fault the smallest first.
    Raises CompileError with NVRTC's log, which speaks of the lines of the source.
    """
    if not arch:
        arch = architecture_of(text, "sm_90")
    known = {**_HEADERS, **_integers(), **(headers or {})}
    options = [*(f"--pre-include={one}" for one in _ALWAYS), *flags]

    opening = _standard_library(text) + prelude

    def compiled(body: str, wanted: Sequence[str]) -> DeviceCode:
        # Macros of <cmath> that a program has as names of its own
        undone = "".join(f"\n#undef {name}" for name in set(_ENUMERATED.findall(body)))
        head = opening + undone
        whole = f'{head}\n#line 1 "{name}"\n{body}' if head else body
        ptx, names = compile_named(
            whole, wanted, arch=arch, flags=options, name=name, headers=known
        )
        return DeviceCode(ptx=ptx, names=names)

    first: CompileError | None = None
    places: dict[tuple[str, int], list[int]] = {}
    left, expressions = set(doubtful), tuple(expressions)
    # What does not compile is found sooner without the instances that the host launches.
    wanted = () if len(text) > _LARGE else expressions
    for _ in range(_ROUNDS):
        try:
            found = compiled(text, wanted)
        except CompileError as error:
            first = first or error
            places = places or _places(text, name)
            faults = [(one["file"], int(one["line"])) for one in _FAULT.finditer(error.log)]
            lines = [places[one] for one in faults if one in places]
            if any(len(one) > 1 for one in lines):  # of several files of one name
                lines = [_lines_without_marks(text, name, compiled)]
            innermost = [_innermost(left, line) for each in lines for line in each]
            gone = {one for one in innermost if one is not None}
            if not gone:
                break
            left -= gone
            rows = text.split("\n")
            for start, last in gone:
                rows[start - 1 : last] = [""] * (min(last, len(rows)) - start + 1)
            text, wanted = "\n".join(rows), ()
        else:
            if wanted == expressions:
                return found
            wanted = expressions
    assert first is not None
    raise first


def _places(text: str, name: str) -> dict[tuple[str, int], list[int]]:
    """Return the lines of a text that its marks give each file and line, all from 1."""
    found: dict[tuple[str, int], list[int]] = {}
    file, next_line = name, 1
    for number, line in enumerate(text.split("\n"), 1):
        if mark := _MARK.fullmatch(line):
            file, next_line = mark["file"] or file, int(mark["line"])
        else:
            found.setdefault((file, next_line), []).append(number)
            next_line += 1
    return found


def _lines_without_marks(
    text: str, name: str, compiled: Callable[[str, Sequence[str]], DeviceCode]
) -> list[int]:
    """Return the lines of a text's faults as they are where nothing says that they are others'."""
    try:
        compiled(_MARK.sub("", text), ())
    except CompileError as error:
        found = _FAULT.finditer(error.log)
        return [int(one["line"]) for one in found if one["file"] == name]
    return []


def _innermost(ranges: Collection[tuple[int, int]], line: int) -> tuple[int, int] | None:
    """Return the shortest range of lines that holds a line, if one does."""
    holding = [one for one in ranges if one[0] <= line <= one[1]]
    return min(holding, key=lambda one: (one[1] - one[0], one), default=None)


# Headers that declare 64-bit integers as long long for NVRTC: an LP64 host has them as long, and
# names are to be mangled alike.
_LONG = ("cuda/std/cstdint", "cuda_pipeline_helpers.h", "cuda_awbarrier_helpers.h")


@cache
def _integers() -> dict[str, str]:
    """Return headers of the toolkit with integer types as an LP64 host has them."""
    found = {}
    for name in _LONG:
        files = [Path(folder) / name for folder in include_folders()]
        for file in [one for one in files if one.is_file()][:1]:
            found[name] = file.read_text().replace("signed long long", "signed long")
    return found


@cache
def _header(name: str) -> str:
    """Return how the installed libcu++ names a header: CUDA 13.0 has `__algorithm_` alone."""
    for one in (name, f"__{name}_"):
        if any((Path(folder) / "cuda" / "std" / one).is_file() for folder in include_folders()):
            return one
    return name


def _standard_library(text: str) -> str:
    """Return includes of libcu++ for what the device's text names in `std`."""
    wanted: dict[str, None] = {}
    for name in dict.fromkeys(_IN_STD.findall(text)):
        wanted |= dict.fromkeys([_STANDARD[name]] if name in _STANDARD else _PREFERRED)
    if not wanted:
        return ""
    lines = [f"#include <cuda/std/{_header(header)}>" for header in wanted]
    return "\n".join([*lines, "namespace std { using namespace cuda::std; }", ""])
