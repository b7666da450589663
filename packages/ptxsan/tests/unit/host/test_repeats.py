"""Launches that come again on the same memory, and launches behind one that was stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")
from ptxsan.findings import Kind, MachineReport
from ptxsan.host import repeats
from ptxsan.host.program import run_program
from ptxsan.host.repeats import Repeats
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.schedules import SCHEDULES, every
from ptxsan_support.ptx import kernel

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
_DOUBLE = "ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r2; st.global.u32 [%rd2], %r2;"
_GROW = "ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2;"
_CLOCK = "mov.u32 %r2, %clock; st.global.u32 [%rd2], %r2;"


class _Runs:
    """How often a launch is executed in earnest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
        self.count, self.repeats, self.module = 0, Repeats(), parse(kernel(body))
        monkeypatch.setattr(repeats, "every", self._every)
        self.buffers = [
            Buffer(name=name, data=np.array([number, 0], np.uint8).repeat([1, 3]))
            for name, number in (("a", 7), ("b", 0))
        ]

    def _every(self, *given: object, **options: object) -> list[MachineReport]:
        self.count += 1
        return every(*given, **options)  # type: ignore[arg-type]

    def launch(self, times: int) -> list[int]:
        """Launch so often; return what lies in the second buffer, or grows in the first."""
        for _ in range(times):
            launch = Launch(
                kernel="k", grid=(1, 1, 1), block=(1, 1, 1), buffers=tuple(self.buffers),
                arguments=tuple(Pointer(buffer=one) for one in self.buffers),
            )  # fmt: skip
            (report,) = self.repeats.every(
                self.module, launch, options=Options(shadow=False), schedules=SCHEDULES[:1],
                given=(b"a", b"b"),
            )  # fmt: skip
            assert report.inconclusive is None
        return [int(one.data.view(np.uint32)[0]) for one in self.buffers]


def test_a_launch_on_the_same_memory_runs_until_that_is_as_it_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = _Runs(monkeypatch, _DOUBLE)
    assert runs.launch(10) == [7, 14]
    assert runs.count == 2
    runs.buffers[0].data[0] = 9
    assert runs.launch(10) == [9, 18]
    assert runs.count == 4


def test_a_launch_that_changes_what_it_reads_runs_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = _Runs(monkeypatch, _GROW)
    assert runs.launch(10) == [17, 0]
    assert runs.count == 10


def test_what_lies_in_memory_before_a_repeated_launch_comes_out_as_it_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = _Runs(monkeypatch, _DOUBLE)
    runs.launch(2)
    runs.buffers[1].data[0] = 14
    assert runs.launch(1) == [7, 14]
    runs.buffers[1].data[0] = 99  # another hand wrote there: not the memory that was seen
    assert runs.launch(1) == [7, 14]
    assert runs.count == 3


def test_a_kernel_that_reads_a_clock_runs_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs(monkeypatch, _CLOCK)
    runs.launch(5)
    assert runs.count == 5


STOPPED = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void slow(int* y) {
  unsigned long long x = 1;
  for (unsigned long long i = 0; i < (1ull << 40); ++i) x = x * 6364136223846793005ull + y[0];
  y[1] = x;
}
__global__ void follow(const int* y, int* z) { z[y[1] & 1023] = 1; }
__global__ void apart(int* z, int n) { z[n] = 1; }
int main(int, char** argv) {
  int *y, *z, *w, host[4];
  cudaMalloc(&y, 64); cudaMalloc(&z, 64); cudaMalloc(&w, 64);
  cudaMemset(y, 0, 4);
  slow<<<1, 1>>>(y);
  follow<<<1, 1>>>(y, z);
  apart<<<1, 1>>>(w, argv[1][0] - '0' + 15);
  if (cudaMemcpy(host, z, 16, cudaMemcpyDeviceToHost)) return 1;
  cudaMemset(y, 0, 64); cudaMemset(z, 0, 64);
  follow<<<1, 1>>>(y, z);
}
"""


@needs_compiler
@pytest.mark.parametrize(("beyond", "kinds"), [("0", set()), ("1", {Kind.OUT_OF_BOUNDS})])
def test_nothing_is_said_of_what_a_stopped_launch_was_to_write(
    tmp_path: Path, beyond: str, kinds: set[Kind]
) -> None:
    file = tmp_path / "stopped.cu"
    file.write_text(STOPPED)
    ran = run_program([file], [beyond], launch_limit_s=1.0)
    assert {one.kind for one in ran.wrong} == kinds
    assert [bool(one.inconclusive) for one in ran.launches] == [True, True, False, False]
    assert "launch 1 (slow" in ran.launches[1].inconclusive
    assert ran.status == 0
