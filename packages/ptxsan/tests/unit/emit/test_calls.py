"""Calls through pointers, virtual calls, functions that call themselves, and grid.sync()."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ptxsan import nvrtc
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="libnvrtc is not installed")
_SOURCE = r"""
typedef float (*op)(float);
__device__ float twice(float a) { return 2 * a; }
__device__ float inc(float a) { return a + 1; }
__device__ op table[2] = {twice, inc};
struct Base { __device__ virtual float f(float) = 0; };
struct Three : Base { __device__ float f(float a) override { return a * 3; } };
struct Less : Base { __device__ float f(float a) override { return a - 3; } };
__device__ __noinline__ int sum(int n) { return n < 1 ? 0 : n + sum(n - 1) * (n > 0); }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void pointers(float* x, int which) { x[threadIdx.x] = table[which](1.f); }
extern "C" __global__ void methods(float* x, int which) {
  Three a; Less b;
  Base* chosen = which ? (Base*)&a : (Base*)&b;
  x[threadIdx.x] = chosen->f(1.f);
}
extern "C" __global__ void depth(float* x, int n) { x[threadIdx.x] = sum(n); }
extern "C" __global__ void width(float* x, int n) { x[threadIdx.x] = fib(n); }
extern "C" __global__ void lanes(float* x, int n) { x[threadIdx.x] = n + warpSize; }
"""
_GRID = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
  SYNC
  int other = x[(i + blockDim.x) % n];
  cooperative_groups::this_grid().sync();
  x[i] = other + warpSize;
}
"""


@pytest.fixture(scope="module")
def text() -> str:
    return nvrtc.compile_ptx(_SOURCE, arch="sm_80")


def _ran(text: str, kernel: str, number: int) -> tuple[Buffer, MachineReport]:
    buffer = buffer_of(np.zeros(32, np.float32))
    arguments = Pointer(buffer=buffer), struct.pack("<i", number)
    launch = Launch(kernel=kernel, grid=(1, 1, 1), block=(32, 1, 1), arguments=arguments)
    return buffer, run(parse(text), launch)


@pytest.mark.parametrize(
    ("kernel", "number", "value"),
    [("pointers", 0, 2), ("pointers", 1, 2), ("methods", 0, -2), ("methods", 1, 3),
     ("depth", 20, 210), ("width", 7, 13), ("lanes", 1, 33)],
)  # fmt: skip
def test_what_is_called_computes(text: str, kernel: str, number: int, value: float) -> None:
    buffer, report = _ran(text, kernel, number)
    assert report.inconclusive is None
    assert report.findings == ()
    assert np.all(buffer.data.view(np.float32) == value)


def test_a_pointer_to_no_function_traps(text: str) -> None:
    _, report = _ran(text, "pointers", 2)
    assert {one.kind for one in report.findings} >= {Kind.OUT_OF_BOUNDS}


def test_a_number_is_no_function() -> None:
    source = """extern "C" __global__ void k(float* x, int number) {
        if (number) ((void (*)(float*))5)(x); }"""
    ptx = nvrtc.compile_ptx(source, arch="sm_80")
    _, called = _ran(ptx, "k", 1)
    assert [one.kind for one in called.findings] == [Kind.TRAP]
    assert "through a pointer that holds no function" in called.findings[0].text
    _, left_out = _ran(ptx, "k", 0)
    assert left_out.inconclusive is None
    assert left_out.findings == ()


def test_what_goes_too_deep_has_no_verdict(text: str) -> None:
    _, report = _ran(text, "width", 60)
    assert report.inconclusive is not None
    assert "calls itself more deeply" in report.inconclusive


@pytest.mark.parametrize("sync", ["cooperative_groups::this_grid().sync();", "__syncthreads();"])
def test_the_barrier_of_the_grid_orders_blocks(sync: str) -> None:
    ptx = nvrtc.compile_ptx(_GRID.replace("SYNC", sync), arch="sm_80")
    buffer = buffer_of(np.zeros(128, np.int32))
    arguments = Pointer(buffer=buffer), struct.pack("<i", 128)
    launch = Launch(kernel="k", grid=(4, 1, 1), block=(32, 1, 1), arguments=arguments)
    report = run(parse(ptx), launch)
    assert report.inconclusive is None
    if "grid" in sync:
        assert report.findings == ()
        expected = (np.arange(128) + 32) % 128 + 32
        assert np.array_equal(buffer.data.view(np.int32), expected)
    else:
        assert {one.kind for one in report.findings} == {Kind.RACE}
