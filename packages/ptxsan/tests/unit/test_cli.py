"""The command and its one-call API: what a user types, sees and gets back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import ptxsan
from ptxsan import names, nvrtc, sources
from ptxsan.cli import main
from ptxsan.errors import LaunchError, UsageError
from ptxsan.findings import Kind
from ptxsan.launch import Buffer

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")
_KERNEL = """
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
_FAULTY = _KERNEL.replace("i < n", "i <= n")
_TEMPLATE = """
template <typename T> __global__ void fill(T* y, T value) { y[threadIdx.x] = value; }
"""
_REMOVED = """
extern "C" __global__ void k(int* x, int* y) {
    int unused = x[threadIdx.x + 32];
    y[threadIdx.x] = 1;
}
"""
_LARGE = """
__global__ void k(int* y) {
    __shared__ volatile int big[16384];
    big[threadIdx.x * 7] = 7;
    y[threadIdx.x] = big[threadIdx.x * 7];
}
"""
_CUPY = '''
import cupy
SOURCE = """
extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }
"""
twice = cupy.RawKernel(SOURCE, "twice")
'''
_TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) + 1.0, mask=o < n LIMIT)
"""
_GIVEN = ["--grid", "4", "--block", "256", "--arg", "x=f32[1000]", "--arg", "y=out:f32[1000]",
          "--arg", "n=1000", "--no-debug-build"]  # fmt: skip
_SARIF = Path(__file__).resolve().parents[4] / "tests" / "data" / "sarif"


_PROGRAM = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void add(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + BEYOND) x[i] += 1;
}
__global__ void claim(int* place, int* out) {
    int turn = atomicAdd(place, 1);
    if (turn == 1 && blockIdx.x == 0) out[2] = 1;
    out[turn] = blockIdx.x;
}
int main(int argc, char**) {
    float* x; int* y;
    cudaMalloc(&x, 400); cudaMemset(x, 0, 400);
    cudaMalloc(&y, 12); cudaMemset(y, 0, 12);
    for (int k = 0; k < 3; ++k) add<<<1, 128>>>(x, 100);
    if (argc > 1) claim<<<2, 1>>>(y, y + 1);
    int got[3]; cudaMemcpy(got, y, 12, cudaMemcpyDeviceToHost);
    printf("%d %d %d\\n", got[0], got[1], got[2]);
    return argc > 2 ? 5 : 0;
}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "k.cu"
    file.write_text(_KERNEL)
    return file


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.cu"
    file.write_text(_FAULTY)
    return file


def test_a_clean_kernel_ends_with_0(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(good), "--kernel", "scale", *_GIVEN]) == 0
    assert capsys.readouterr().out == (
        "========= PTXSAN\n"
        "========= ERROR SUMMARY: 0 errors (no branch and no address depends on data: this holds "
        "for all data)\n"
    )


def test_a_fault_is_shown_with_its_line(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(faulty), *_GIVEN, "--schedules", "2"]) == 1
    out = capsys.readouterr().out
    assert "========= Invalid access out of bounds\n" in out
    assert "faulty.cu:4 (PTX line" in out
    assert "by thread (232,0,0) in block (3,0,0)" in out
    assert out.endswith("========= ERROR SUMMARY: 2 errors\n")
    assert main(["run", str(faulty), *_GIVEN, "--error-exitcode", "9"]) == 9


def test_json_and_sarif(faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.sarif"
    assert main(["run", str(faulty), *_GIVEN, "--json", "--sarif", str(log)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in found["findings"]] == ["out-of-bounds", "out-of-bounds"]
    assert found["findings"][0]["accesses"][0]["line"] == 4
    schema = next(_SARIF.glob("*.json"))
    jsonschema.validate(json.loads(log.read_text()), json.loads(schema.read_text()))


def test_a_trace_shows_what_ran(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(good), *_GIVEN, "--trace"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert any("yes" in one and "2.0f * x[i]" in one for one in lines)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--arg", "n"], "--arg n: expected NAME=SPEC"),
        (["--arg", "z=f33[4]"], "--arg z=f33[4]: expected a type of f16"),
        (["--arg", "z=1"], "takes 3 arguments, 4 are given"),
        (["--kernel", "shale"], "no single kernel 'shale' in the module: scale"),
        (["--block", "2048"], "a block of (2048, 1, 1); sm_90 takes 1 to"),
        (["--grid", "1,70000"], "a grid of (1, 70000, 1)"),
        (["--shared", "300000"], "300000 bytes of shared memory a block"),
    ],
)
def test_a_mistake_gets_one_message(
    good: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(good), *_GIVEN, *more]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("ptxsan: ")


@pytest.fixture
def program(tmp_path: Path) -> str:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    file = tmp_path / "program.cu"
    file.write_text(_PROGRAM)
    return str(file)


def test_a_whole_program_says_a_fault_once(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", program, "--flag=-DBEYOND=0", "--", "a", "b"]) == 5
    assert "3 launches" not in capsys.readouterr().out
    log = tmp_path / "log.sarif"
    assert main(["run", program, "--flag=-DBEYOND=1", "--sarif", str(log)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("0 0 0\n========= PTXSAN\n")
    assert f"at {program}:6 (PTX line" in out
    assert "in launch 1 of 3, 1x1x1 blocks of 128x1x1, and in 2 others" in out
    assert out.endswith("3 launches, exit status 0\n========= ERROR SUMMARY: 2 errors\n")
    schema = next(_SARIF.glob("*.json"))
    jsonschema.validate(json.loads(log.read_text()), json.loads(schema.read_text()))
    assert len(json.loads(log.read_text())["runs"][0]["results"]) == 2


def test_schedules_of_a_whole_program(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Block 0 stores outside of its memory where block 1 came first; what is left is forward's."""
    arguments = ["run", program, "--flag=-DBEYOND=0"]
    assert main([*arguments, "--", "claim"]) == 0
    assert capsys.readouterr().out.startswith("2 0 1\n")
    assert main([*arguments, "--schedules", "2", "--json", "--", "claim"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["output"] == "2 0 1\n"
    said = [one["kind"] for launch in found["launches"] for one in launch["findings"]]
    assert "out-of-bounds" in said


@pytest.mark.parametrize(
    ("more", "code"),
    [(["--flag=-DBEYOND=0"], 0), (["--flag=-DBEYOND=0", "--arch", "sm_75"], 0),
     (["--flag=-DBEYOND=1"], 1)],
)  # fmt: skip
def test_one_kernel_of_a_program_runs_without_its_host_code(
    program: str, more: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--kernel", "add", "--grid", "1", "--block", "128", "--no-debug-build"]
    given += ["--arg", "x=f32[100]", "--arg", "n=100"]
    assert main(["run", program, *given, *more]) == code
    assert "0 0 0" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--block", "32", "--arg", "n=1"], "--grid is missing"),
        (["--trace"], "--trace is for one kernel"),
        (["--arch", "blackwell"], "'blackwell' is not an architecture; expected one such as"),
        (["--flag=-O3"], "--flag=-O3: of a whole program expected -DNAME=VALUE"),
    ],
)
def test_what_does_not_fit_a_whole_program_is_refused(
    good: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(good), *more]) == 2
    assert words in capsys.readouterr().err


def test_kernels_are_listed(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", str(good)]) == 0
    assert capsys.readouterr().out.startswith("scale(u64, u64, u32)  _Z5scale")


def test_the_api_changes_arrays_in_place() -> None:
    x, y = np.arange(8, dtype=np.float32), ptxsan.empty(8)
    report = ptxsan.check(_KERNEL, "scale", grid=1, block=32, args={"x": x, "y": y, "n": 8})
    assert report.ok, report.text
    assert np.array_equal(y.array, 2 * x)
    nothing = ptxsan.empty(8)
    read = ptxsan.check(_KERNEL, grid=1, block=8, args=[nothing, y, 8])
    assert {one.kind for one in read.wrong} == {Kind.UNINITIALISED}


def test_templates_are_instantiated() -> None:
    y = ptxsan.empty(32, "int32")
    report = ptxsan.check(_TEMPLATE, "fill<int>", grid=1, block=32, args=[y, -3])
    assert report.ok, report.text
    assert np.all(y.array == -3)


def test_what_optimisation_removes_is_shown_by_the_debug_build() -> None:
    arguments = [np.zeros(32, np.int32), ptxsan.empty(32, "int32")]
    report = ptxsan.check(_REMOVED, grid=1, block=32, args=arguments, debug=True)
    assert report.findings == ()
    assert {one.kind for one in report.hidden} == {Kind.OUT_OF_BOUNDS}
    assert "only as -G compiles it" in report.text
    clean = _REMOVED.replace("+ 32", "")
    assert ptxsan.check(clean, grid=1, block=32, args=arguments, debug=True).ok


def test_static_shared_memory_is_limited() -> None:
    y = ptxsan.empty(32, "int32")
    with pytest.raises(LaunchError, match="65536 bytes of static shared memory; sm_90 takes 49152"):
        ptxsan.check(_LARGE, grid=1, block=32, args=[y])
    ptxsan.check(_LARGE.replace("16384", "12288"), grid=1, block=32, args=[y])
    assert np.all(y.array == 7)


def test_a_misaligned_access_out_of_bounds_is_both() -> None:
    source = 'extern "C" __global__ void k(char* x) { *(int*)(x + 61) = 1; }'
    report = ptxsan.check(source + "\n", grid=1, block=1, args=[np.zeros(60, np.uint8)])
    assert {one.kind for one in report.findings} == {Kind.OUT_OF_BOUNDS, Kind.MISALIGNED}


def test_raw_kernels_of_cupy_are_read_not_run(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(_CUPY)
    x = np.ones(32, np.float32)
    assert ptxsan.check(file, "twice", grid=1, block=32, args=[x]).ok
    assert np.all(x == 2)
    assert not ptxsan.check(file, "twice", grid=1, block=64, args=[x]).ok


def test_functions_of_triton(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "kernels.py"
    x, y = np.ones(1000, np.float32), ptxsan.empty(1000)
    arguments = {"x": x, "y": y, "n": 1000, "BLOCK": 256}
    file.write_text(_TRITON.replace(" LIMIT", ""))
    report = ptxsan.check(file, "add", grid=4, args=arguments)
    assert report.ok, report.text
    assert np.all(y.array == 2)
    file.write_text(_TRITON.replace(" LIMIT", " + 1"))
    assert not ptxsan.check(file, "add", grid=4, args=arguments).ok


def test_the_fixture_fails_with_the_report(ptxsan_check: object) -> None:
    assert callable(ptxsan_check)
    x = np.ones(8, np.float32)
    assert ptxsan_check(_KERNEL, grid=1, block=8, args=[x, ptxsan.empty(8), 8]).ok
    with pytest.raises(pytest.fail.Exception, match="ERROR SUMMARY: 2 errors"):
        ptxsan_check(_FAULTY, grid=1, block=16, args=[x, ptxsan.empty(8), 8])


def test_buffers_take_arrays_of_any_type() -> None:
    values = np.arange(4, dtype=np.float32)
    buffer = Buffer(name="x", data=values)  # type: ignore[arg-type]
    assert buffer.data.dtype == np.uint8
    assert buffer.data.size == 16
    buffer.data[:4] = 0
    assert values[0] == 0


def test_names_are_told_from_mangled_ones() -> None:
    assert names.plain_name("_Z5scalePKfPfi") == "scale"
    assert names.plain_name("_ZN2ns5inner4fillIiEEvPT_S2_") == "fill"
    assert names.plain_name("plain") == "plain"
    with pytest.raises(UsageError, match="cannot be read"):
        sources.of_file(Path("/nowhere/k.cu"))
