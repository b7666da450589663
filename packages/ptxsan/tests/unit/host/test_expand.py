"""A program's own macros expanded, the system's headers left alone, lines kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ptxsan.errors import CompileError
from ptxsan.host.expand import Source, asks_for_nvrtc, expand

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


def _expanded(
    folder: Path, text: str, *, arch: str = "sm_80", nvrtc: bool = False, **files: str
) -> str:
    (folder / "theirs").mkdir()
    main = folder / "theirs" / "k.cu"
    main.write_text(text)
    for name, content in files.items():
        (folder / "theirs" / f"{name}.cuh").write_text(content)
    (folder / "scratch").mkdir()
    return expand(Source(path=main), folder / "scratch", arch=arch, nvrtc=nvrtc)


def test_own_macros_and_headers_are_expanded_and_the_systems_stay(tmp_path: Path) -> None:
    text = (
        '#include "own.cuh"\n#include <vector>\n#include "gone.h"\n'
        "#pragma unroll TURNS\nint x = TWICE(3);\n"
    )
    found = _expanded(
        tmp_path, text, own="#pragma once\n#define TURNS 4\n#define TWICE(n) ((n) * 2)\n"
    )
    assert "#include <vector>" in found
    assert "#include <gone.h>" in found
    assert "#pragma unroll 4" in found
    assert "int x = ((3) * 2);" in found
    assert '"k.cu"' in found
    assert str(tmp_path) not in found


def test_device_code_has_its_architecture_and_host_code_none(tmp_path: Path) -> None:
    text = "#ifdef __CUDA_ARCH__\nint arch = __CUDA_ARCH__;\n#else\nint host;\n#endif\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert "int arch = 900;" in _expanded(tmp_path / "a", text, arch="sm_90")
    assert "int host;" in _expanded(tmp_path / "b", text, arch="")


def test_an_error_names_the_users_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"k\.cu cannot be preprocessed") as raised:
        _expanded(tmp_path, "#error never\n")
    assert "scratch" not in raised.value.log
    assert "never" in raised.value.log


def test_a_header_that_a_macro_names_is_left_to_the_compiler(tmp_path: Path) -> None:
    """CUTLASS names libcu++'s headers so; expanded in place they would lose their guards."""
    text = (
        "#define OF(name) <cuda/std/name>\nint before;\n#include OF(utility) // why\nint after;\n"
    )
    expanded = _expanded(tmp_path, text)
    assert "#include <cuda/std/utility>" in expanded
    assert expanded.index("before") < expanded.index("#include") < expanded.index("after")


def test_device_code_is_what_its_headers_have_for_nvrtc(tmp_path: Path) -> None:
    text = "#if defined(__CUDACC_RTC__)\nint by_nvrtc;\n#else\nint by_nvcc;\n#endif\n"
    for name in "ab":
        (tmp_path / name).mkdir()
    assert "by_nvrtc" in _expanded(tmp_path / "a", text, nvrtc=True)
    assert "by_nvcc" in _expanded(tmp_path / "b", text)
    assert asks_for_nvrtc(tmp_path / "b" / "scratch")


def test_what_a_program_leaves_out_for_nvrtc_is_there_where_nothing_stands_for_it(
    tmp_path: Path,
) -> None:
    text = "#if !defined(__CUDACC_RTC__)\n#if 1\nint kept;\n#else\nint no;\n#endif\n#endif\n"
    text += "#if !defined(__CUDACC_RTC__)\nint by_nvcc;\n#else\nint by_nvrtc;\n#endif\n"
    expanded = _expanded(tmp_path, text, nvrtc=True)
    assert "int kept;" in expanded
    assert "int by_nvrtc;" in expanded
    assert "by_nvcc" not in expanded


def test_types_of_arguments_are_the_hosts_where_a_header_has_others_for_nvrtc(
    tmp_path: Path,
) -> None:
    condition = "#if (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)\n"
    types = condition + "using Map = CUtensorMap;  // 128\n#else\n"
    types += "using Map = struct alignas(64) { char bytes[128]; };\n#endif\n"
    code = condition + "int where() { return 1; }\n#else\nint where() { return 2; }\n#endif\n"
    text = _expanded(tmp_path, types + code, nvrtc=True)
    assert "using Map = CUtensorMap;" in text
    assert "alignas(64)" not in text
    assert "return 2;" in text
