"""What a report says of a fault: once, on the user's own line, with the name of the source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptxsan
from ptxsan.cli import main
from ptxsan.findings import Access, Kind, MachineFinding, Severity, connected
from ptxsan.lines import is_library, own_line
from ptxsan.names import plain_name, readable, source_name
from ptxsan.nvrtc import available
from ptxsan.parser import parse
from ptxsan.syntax import SourceLine

needs_nvrtc = pytest.mark.skipif(not available(), reason="NVRTC is not installed")

_PIPELINE = """#include <cuda_pipeline.h>
__device__ void fetch(float* to, const float* from) { __pipeline_memcpy_async(to, from, 16); }
extern "C" __global__ void staged(const float* x, float* y) {
    __shared__ __align__(16) float buf[4][128];
    int t = threadIdx.x;
    fetch(&buf[0][4 * t], x + 4 * t); __pipeline_commit();
    for (int i = 0; i < 4; ++i) {
        if (i < 3) fetch(&buf[i + 1][4 * t], x + 128 * (i + 1) + 4 * t);
        COMMIT_BEFORE
        __pipeline_wait_prior(1); // the wait
        COMMIT_AFTER
        __syncthreads();
        y[32 * i + t] = buf[i][(WHOSE) % 128];
    }
}
"""


@needs_nvrtc
@pytest.mark.parametrize("whose", ["4 * t", "4 * t + 4"], ids=["own-bytes", "of-a-neighbour"])
def test_a_copy_that_is_committed_too_late_names_the_wait(whose: str) -> None:
    def check(before: str, after: str) -> ptxsan.Report:
        source = _PIPELINE.replace("COMMIT_BEFORE", before).replace("COMMIT_AFTER", after)
        x = np.ones(512, np.float32)
        return ptxsan.check(
            source.replace("WHOSE", whose), "staged", grid=1, block=32, args=[x, ptxsan.empty(128)]
        )

    assert check("__pipeline_commit();", "").ok
    report = check("", "__pipeline_commit();")
    assert report.wrong
    assert len(report.wrong) <= 2
    for found in report.wrong:
        assert "cp.async.wait_group on line 10" in found.text
        assert [access.source_line for access in found.accesses][-1] == 10
        assert {access.source_line for access in found.accesses} <= {2, 8, 10, 13}
    assert check("__pipeline_commit();", "").ok


_STAGES = """
extern "C" __global__ void rows(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int t = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        tile[t] = x[128 * k + t];
        __syncthreads();
        float s = 0;
        for (int i = 0; i < 128; ++i) s += tile[i];
        y[128 * k + t] = s;
        BEHIND
    }
}
"""


@needs_nvrtc
def test_an_unrolled_loop_is_one_finding_with_a_count() -> None:
    def check(behind: str) -> ptxsan.Report:
        x, y = np.ones(512, np.float32), ptxsan.empty(512)
        return ptxsan.check(
            _STAGES.replace("BEHIND", behind), "rows", grid=1, block=128, args=[x, y, 4]
        )

    report = check("")
    (found,) = report.wrong
    assert found.kind is Kind.RACE
    assert {access.source_line for access in found.accesses} == {6, 9}
    assert found.count > 300
    assert check("__syncthreads();").ok


_TWO = """
extern "C" __global__ void two(float* y) {
    __shared__ float a[64], b[64];
    int t = threadIdx.x;
    a[t] = t;
    y[t] = a[63 - t];
    BETWEEN
    b[t] = t;
    __syncthreads();
    y[64 + t] = b[63 - t];
    b[t] = 1;
}
"""


@needs_nvrtc
def test_races_without_a_line_in_common_stay_apart() -> None:
    report = ptxsan.check(
        _TWO.replace("BETWEEN", ""), "two", grid=1, block=64, args=[ptxsan.empty(128)]
    )
    races = [one for one in report.wrong if one.kind is Kind.RACE]
    lines = [sorted({access.source_line or 0 for access in one.accesses}) for one in races]
    assert sorted(lines) == [[5, 6], [10, 11]]


_STRICT = """
extern "C" __global__ void k(int* p, int* flag, int* out) {
    if (blockIdx.x == 0) {
        *(volatile int*)p = 7;
        TELL
        *(volatile int*)flag = 1;
    } else {
        while (*(volatile int*)flag == 0) {}
        HEAR
        *out = *(volatile int*)p;
    }
}
"""


@needs_nvrtc
def test_with_strict_order_a_missing_fence_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.cu"
    given = ["--grid", "2", "--block", "1", "--arg", "p=zeros:i32[1]", "--arg", "flag=zeros:i32[1]",
             "--arg", "out=out:i32[1]", "--no-debug-build"]  # fmt: skip
    for tell, hear in (("", ""), ("", "__threadfence();")):
        file.write_text(_STRICT.replace("TELL", tell).replace("HEAR", hear))
        assert main(["run", str(file), *given]) == 0
        assert "Note: Unordered" in capsys.readouterr().out
        assert main(["run", str(file), *given, "--strict-order"]) == 1
        assert "ERROR SUMMARY: 1 error" in capsys.readouterr().out
    file.write_text(_STRICT.replace("TELL", "__threadfence();").replace("HEAR", "__threadfence();"))
    assert main(["run", str(file), *given, "--strict-order"]) == 0


@needs_nvrtc
def test_the_optimised_result_is_kept_where_the_other_build_does_not_fit() -> None:
    functions = "".join(
        f"__device__ int f{n}(int i) {{ int a[2] = {{i, {n}}}; return a[i & 1]; }}\n"
        for n in range(90)
    )
    calls = " + ".join(f"f{n}(t)" for n in range(90))
    source = f"""{functions}
    extern "C" __global__ void k(int* y, int n) {{
        int t = threadIdx.x; if (t < n) y[t] = {calls}; }}"""

    def check(n: int) -> ptxsan.Report:
        given = [ptxsan.empty(32, "int32"), n]
        return ptxsan.check(source, "k", grid=1, block=32, args=given, debug=True)

    report = check(32)
    assert report.ok
    assert "variables in one space are too many" in report.no_debug_build
    assert "the build without optimisation (-G) was not executed" in report.text
    wrong = ptxsan.check(
        source.replace("t < n", "t <= n"), "k", grid=1, block=32,
        args=[ptxsan.empty(31, "int32"), 31], debug=True,
    )  # fmt: skip
    assert [one.kind for one in wrong.wrong] == [Kind.OUT_OF_BOUNDS]


_SAME = """
extern "C" __global__ void k(float* y, const float* x, int rows) {
    int first = blockIdx.x * STEP;
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        int row = first + r;
        if (row < rows) y[32 * row + threadIdx.x] = 2 * x[32 * row + threadIdx.x] + OFF;
    }
}
"""


@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9, 16])
def test_blocks_that_store_the_same_values_are_a_note_at_every_size(rows: int) -> None:
    def check(off: str, step: str = "1") -> ptxsan.Report:
        x = np.arange(32 * rows, dtype=np.float32)
        return ptxsan.check(
            _SAME.replace("OFF", off).replace("STEP", step), "k", grid=rows, block=32,
            args=[ptxsan.empty(32 * rows), x, rows],
        )  # fmt: skip

    report = check("0")
    assert report.ok, report.text
    assert [one.kind for one in report.findings] == [Kind.SAME_VALUE_RACE] * (rows > 1)
    assert {one.severity for one in report.findings} <= {Severity.NOTE}
    assert check("0", step="4").findings == ()
    planted = check("r")
    assert [one.kind for one in planted.wrong] == [Kind.RACE] * (rows > 1)


def test_names_are_those_of_the_source() -> None:
    assert source_name("_Z3sumPKfS0_Pfi") == "sum"
    assert source_name("_Z4rowsIfLi4EEvPKT_PS0_") == "rows<float, 4>"
    assert source_name("_ZN2ns5inner4fillIiEEvPT_S2_") == "ns::inner::fill<int>"
    assert source_name("_ZZ4rowsIfLi4EEvPKT_PS0_E4tile") == "tile of rows<float, 4>"
    assert source_name("_ZN12_GLOBAL__N_15helloEPi") == "hello"
    assert source_name("_Zwhat") == "_Zwhat"
    assert plain_name("_ZN2ns5inner4fillIiEEvPT_S2_") == "fill"
    assert readable("read of '_ZZ9block_sumfE5warps'") == "read of 'warps of block_sum'"


def test_lines_of_libraries_are_followed_to_the_users() -> None:
    cub = "/usr/lib/python3/dist-packages/nvidia/cu13/include/cccl/cub/block/block_reduce.cuh"
    assert is_library(cub)
    assert is_library("/usr/local/cuda-12.8/targets/x86_64-linux/include/cuda_fp16.hpp")
    assert is_library("/venv/lib/python3.11/site-packages/triton/language/standard.py")
    assert not is_library("/home/me/kernels/cuda/softmax.cu")
    assert not is_library("/home/me/cubes/k.cu")
    kernel, helper = SourceLine("/me/k.cu", 30), SourceLine("/me/h.cuh", 12)
    inner = SourceLine(cub, 400, SourceLine(cub, 77, SourceLine("/me/h.cuh", 12, kernel)))
    found = own_line(inner)
    assert found is not None
    assert (found.file, found.line) == (helper.file, helper.line)
    assert own_line(SourceLine(cub, 4)) == SourceLine(cub, 4)
    assert own_line(None) is None


def test_a_chain_of_inlined_functions_is_read_from_the_lines_before() -> None:
    module = parse(
        """.version 8.7
.target sm_80
.address_size 64
.file 1 "/me/k.cu"
.file 2 "/opt/cuda/include/cuda_pipeline.h"
.file 3 "/opt/cuda/include/cuda_pipeline_helpers.h"
.visible .entry k() {
.loc 1 9 3
mov.u32 %r1, 0;
.loc 2 50 7, function_name $L1, inlined_at 1 9 3
mov.u32 %r1, 1;
.loc 3 70 5, function_name $L2, inlined_at 2 50 7
mov.u32 %r1, 2;
.loc 1 10 1
ret;
}
"""
    )
    lines = []
    for one in module.functions["k"].body:
        place = own_line(one.source)
        lines.append(place and (place.file, place.line))
    assert lines == [("/me/k.cu", 9)] * 3 + [("/me/k.cu", 10)]


def test_races_on_one_line_join_those_that_share_it() -> None:
    def race(*lines: int) -> MachineFinding:
        accesses = tuple(
            Access(
                what="write", ptx_line=one, source_file="a.cu", source_line=one,
                block=(0, 0, 0), thread=(0, 0, 0),
            )
            for one in lines
        )  # fmt: skip
        return MachineFinding(
            kind=Kind.RACE, severity=Severity.WRONG, text="a race", space="shared",
            accesses=accesses,
        )  # fmt: skip

    (one,) = connected([race(4, 5), race(4)])
    assert one.text == "a race; so do lines 4 (1 times)"
