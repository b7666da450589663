"""Machine code of kernels, compiled here without a GPU and read by the real cuobjdump."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cuassay.build.cuda import binaries, nvrtc
from cuassay.build.cuda.binaries import (
    KernelCode,
    find_cuobjdump,
    identifier,
    kernels_in,
    parse_sass,
)
from cuassay.build.recording.ledger import Ledger
from cuassay.errors import MissingToolError
from tests.support.compiler_apart import compiler_apart
from tests.support.ptx_kernels import compiled, module_of

SOURCE = """
namespace ops { template <typename T> __global__ void plain(T* x) { x[threadIdx.x] += 1; } }
template __global__ void ops::plain<float>(float*);
extern "C" __global__ void wide(float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void spills(float* x, int n) {
    float kept[200];
    for (int i = 0; i < 200; ++i) kept[i] = x[i * n + threadIdx.x];
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < 200; ++i) kept[i] *= kept[(i * 7 + j) % 200];
    for (int i = 0; i < 200; ++i) x[i * n + threadIdx.x] = kept[i];
}
"""
TEXT = """
Resource usage:
 Common:
  GLOBAL:0
 Function wide:
  REG:12 STACK:0 SHARED:2048 LOCAL:0 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN3ops5plainIfEEvPT_:
  REG:8 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:536
        Function : wide
        /*0070*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;  /* 0x01 */
        /*0080*/              @!P0 STG.E.128 desc[UR4][R8.64], R4 ;           /* 0x02 */
        /*0090*/                   LDS.128 R4, [R8] ;                         /* 0x02 */
        Function : _ZN3ops5plainIfEEvPT_
        /*0050*/              @UP0 LDL R0, [R2] ;                             /* 0x03 */
        /*0060*/                   STG.E desc[UR4][R2.64], R5 ;               /* 0x04 */
        Function : nobody_knows
"""
needs_tools = pytest.mark.skipif(
    not find_cuobjdump() or (nvrtc.find_nvrtc() is None and shutil.which("nvcc") is None),
    reason="needs cuobjdump and a CUDA compiler",
)


def test_what_cuobjdump_prints_becomes_numbers() -> None:
    assert parse_sass(TEXT) == [
        KernelCode(
            name="wide",
            registers=12,
            stack_bytes=0,
            shared_bytes=2048,
            widest_bytes=16,
            wide_accesses=2,
        ),
        KernelCode(
            name="plain",
            registers=8,
            stack_bytes=16,
            shared_bytes=0,
            local_accesses=1,
            widest_bytes=4,
            wide_accesses=1,
        ),
    ]
    assert parse_sass("cuobjdump info : File does not contain device code") == []


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("rmsnorm", "rmsnorm"),
        ("_Z5scaleIfEvPT_", "scale"),
        ("_ZN3ops4fast5scaleEPf", "scale"),
        ("_ZN12_GLOBAL__N_15scaleEPf", "scale"),
        ("_Z", "_Z"),
        ("_Z999x", "x"),
    ],
)
def test_mangled_names_are_cut_to_their_identifier(mangled: str, name: str) -> None:
    assert identifier(mangled) == name


@needs_tools
def test_spills_and_wide_accesses_are_seen_in_real_code(tmp_path: Path) -> None:
    file = tmp_path / "k.cubin"
    file.write_bytes(nvrtc.compile_cubin(SOURCE, arch="sm_90"))
    found = {kernel.name: kernel for kernel in kernels_in(file)}
    assert set(found) == {"plain", "wide", "spills"}
    assert (found["wide"].widest_bytes, found["wide"].wide_accesses) == (16, 2)
    assert found["wide"].local_accesses == 0
    assert found["spills"].local_accesses > 0
    assert found["spills"].stack_bytes >= 800
    assert (found["plain"].widest_bytes, found["plain"].stack_bytes) == (4, 0)


@needs_tools
@compiler_apart
def test_triton_kernels_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "k.cubin"
    file.write_bytes(compiled(module_of(tmp_path), "tile_product").asm["cubin"])
    (found,) = kernels_in(file)
    assert found.name == "tile_product"
    assert found.widest_bytes == 16
    assert found.registers > 32


def test_without_the_tool_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "find_cuobjdump", lambda: "")
    with pytest.raises(MissingToolError, match="pip install triton"):
        kernels_in(tmp_path / "k.cubin")


def test_libraries_of_a_build_are_noted_and_triton_s_launchers_are_not(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    for name in ("ops-1.so", "triton/AB/__triton_launcher.so", "torch_extensions/x/y.so", "z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ledger.libraries_below(tmp_path)
    assert sorted(Path(str(found)).name for found in ledger.binaries()) == ["ops-1.so", "y.so"]


def test_a_folder_that_another_worker_removes_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton makes and renames folders in its cache: a build beside it failed there once."""
    ledger, scandir = Ledger(), os.scandir
    for name in ("inductor/tmp.pid_1/a.so", "inductor/b.so", "triton/tmp.pid_2/c.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def vanishing(place: Any) -> Any:
        if "tmp.pid" in str(place):
            raise FileNotFoundError(place)
        return scandir(place)

    monkeypatch.setattr(os, "scandir", vanishing)
    ledger.libraries_below(tmp_path)
    assert [Path(str(found)).name for found in ledger.binaries()] == ["b.so"]
