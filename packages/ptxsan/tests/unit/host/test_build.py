"""The CUDA runtime's library, beside another of the same functions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsan import nvrtc
from ptxsan.host.build import Compiled, Options, compile_unit, link, runtime_library

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or not nvrtc.available(), reason="needs g++ and CUDA's headers"
)
# What a torch for CUDA does on a machine without a GPU: NVIDIA's runtime is loaded for the whole
# process, and says that there is no device.
NVIDIA = 'extern "C" int cudaGetDeviceCount(int* count) { *count = 0; return 100; }'
PROGRAM = """
extern "C" int cudaGetDeviceCount(int*);
extern "C" int devices() { int count = 0; return cudaGetDeviceCount(&count) ? -1 : count; }
"""


def test_the_runtime_is_called_where_nvidias_is_loaded_too(tmp_path: Path) -> None:
    runtime = runtime_library(tmp_path)
    for name, text, flags in (
        ("nvidia", NVIDIA, ["-Wl,-soname,libcudart.so.13", "-Wl,--default-symver"]),
        ("program", PROGRAM, [str(runtime), f"-Wl,-rpath,{tmp_path}"]),
    ):
        source, library = tmp_path / f"{name}.cpp", tmp_path / f"{name}.so"
        source.write_text(text)
        command = ["g++", "-shared", "-fPIC", str(source), *flags, "-o", str(library)]
        subprocess.run(command, check=True)
    script = (
        "import ctypes; "
        f"ctypes.CDLL({str(tmp_path / 'nvidia.so')!r}, mode=ctypes.RTLD_GLOBAL); "
        f"print(ctypes.CDLL({str(tmp_path / 'program.so')!r}).devices())"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


_WRITES = """
#include <sstream>
extern "C" int cudaGetDeviceCount(int*);
extern "C" int written() {
  std::ostringstream text;
  int count = 0;
  cudaGetDeviceCount(&count);
  text << 1.5 << " " << 31;
  return text.str().size();
}
"""


def test_a_compiler_that_links_libstdcxx_as_an_archive_makes_programs_that_write(
    tmp_path: Path,
) -> None:
    """In a process that has libstdc++ already, as that of any program here has."""
    compiler, source = tmp_path / "static-g++", tmp_path / "program.cpp"
    compiler.write_text('#!/bin/sh\nexec g++ "$@" -static-libstdc++\n')
    compiler.chmod(0o755)
    source.write_text(_WRITES)
    subprocess.run(["g++", "-c", "-fPIC", str(source), "-o", tmp_path / "program.o"], check=True)
    library = tmp_path / "program.so"
    link(
        [Compiled(object=tmp_path / "program.o", ptx="", names={})], library,
        runtime=runtime_library(tmp_path, compiler=str(compiler)), compiler=str(compiler),
    )  # fmt: skip
    script = (
        "import ctypes; ctypes.CDLL('libstdc++.so.6', mode=ctypes.RTLD_GLOBAL); "
        f"print(ctypes.CDLL({str(library)!r}).written())"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["6"]


def test_kernels_of_deep_types_are_compiled_and_functions_of_their_names_are_none(
    tmp_path: Path,
) -> None:
    deep = "A<" * 300 + "int" + ">" * 300
    (tmp_path / "k.cu").write_text(
        "template <class T> struct A { using Type = T; };\n"
        "namespace inner { template <class T> __global__ void k(int* x) { x[0] = sizeof(T); } }\n"
        f"template <class T> void k(int* x) {{ inner::k<T><<<1, 1>>>(x); }}\n"
        f"void run(int* x) {{ k<{deep}>(x); }}\n"
    )
    found = compile_unit(tmp_path / "k.cu", tmp_path / "made", Options())
    assert len(found.names) == 1
    assert all(f".entry {name}(" in found.ptx for name in found.names.values())
