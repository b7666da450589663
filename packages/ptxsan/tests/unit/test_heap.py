"""malloc, free, new and delete in device code: blocks have bounds, an end, and a place in races."""

from __future__ import annotations

import numpy as np
import pytest

import ptxsan
from ptxsan import nvrtc
from ptxsan.api import Report
from ptxsan.findings import Kind
from ptxsan.heap import Heap, module_heap
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.run import run

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
SOURCE = r"""
__device__ int* kept[4];
extern "C" __global__ void make(int* out, int n) {
  int* p = (int*)malloc(n * 4);
  if (p) p[n - 1] = 10 + threadIdx.x;
  out[threadIdx.x] = p != nullptr;
  kept[threadIdx.x] = p;
}
extern "C" __global__ void take(int* out, int n) {
  out[threadIdx.x] = kept[threadIdx.x][n - 1];
  free(kept[threadIdx.x]);
}
extern "C" __global__ void misuse(int* out, int how) {
  int* p = (int*)malloc(20);
  p[0] = 1;
  if (how == 0) p[5] = 1;
  if (how == 1) { free(p); out[0] = p[0]; }
  if (how == 2) { free(p); free(p); }
  if (how == 3) free(p + 1);
  if (how == 4) out[0] = p[1];
  if (how == 5) free(out);
  if (how == 6) { out[0] = p[0]; free(p); free(nullptr); }
}
extern "C" __global__ void together(int* out, int* step) {
  __shared__ int* all;
  if (threadIdx.x == 0) all = new int[32];
  __syncthreads();
  all[threadIdx.x % *step] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = all[threadIdx.x % *step];
  __syncthreads();
  if (threadIdx.x == 0) delete[] all;
}
"""


def _misuse(how: int) -> Report:
    out = ptxsan.empty(1, "int32")
    return ptxsan.check(SOURCE, "misuse", grid=1, block=1, args=[out, how])


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        (0, Kind.OUT_OF_BOUNDS, "at byte 20 of buffer 'block 1 of malloc (20 bytes)'"),
        (1, Kind.OUT_OF_BOUNDS, "which was freed"),
        (2, Kind.INVALID_FREE, "freed before"),
        (3, Kind.INVALID_FREE, "malloc did not return"),
        (4, Kind.UNINITIALISED, "memory that nobody wrote"),
        (5, Kind.INVALID_FREE, "malloc did not return"),
    ],
)
def test_misuse_of_the_heap_is_found(how: int, kind: Kind, text: str) -> None:
    wrong = _misuse(how).wrong
    assert [one.kind for one in wrong] == [kind]
    assert text in wrong[0].text


def test_honest_use_of_the_heap_is_clean() -> None:
    assert _misuse(6).ok


@pytest.mark.parametrize(("step", "kinds"), [(32, set()), (16, {Kind.RACE})])
def test_races_in_the_heap_are_found(step: int, kinds: set[Kind]) -> None:
    out, steps = ptxsan.empty(32, "int32"), np.array([step], np.int32)
    report = ptxsan.check(SOURCE, "together", grid=1, block=32, args=[out, steps])
    assert {one.kind for one in report.wrong} == kinds
    if not kinds:
        assert np.array_equal(out.array, np.arange(32))


def test_what_one_kernel_allocates_the_next_one_reads_and_frees() -> None:
    module = parse(nvrtc.compile_ptx(SOURCE, arch="sm_80", name="heap.cu"))
    out = Buffer(name="out", data=np.zeros(16, np.uint8))

    def launched(kernel: str, n: int) -> list[int]:
        words = n.to_bytes(4, "little")
        launch = Launch(
            kernel=kernel, grid=(1, 1, 1), block=(4, 1, 1), arguments=(Pointer(buffer=out), words)
        )
        assert run(module, launch).wrong == ()
        return [int(one) for one in out.data.view(np.int32)]

    assert launched("make", 3) == [1, 1, 1, 1]
    assert launched("take", 3) == [10, 11, 12, 13]
    heap = module_heap(module, build(module, "take"))
    assert heap is not None
    assert heap.count == 4
    # four times 4 MiB: CUDA grants 8 MiB unless the program asks for more
    assert sum(launched("make", 1 << 20)) == 2


def test_a_heap_is_put_back() -> None:
    heap = Heap()
    before = heap.keep()
    heap.data[0] = 7
    assert heap.holds(before)  # nothing was given out
    heap.restore(before)
    assert heap.count == 0
