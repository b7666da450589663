"""Faults planted in safe kernels, for proofs: each shows at few sizes, blocks, threads or values.

A fault is a safe kernel (its twin) with one text replaced. It must never be proved free of what
was planted; a twin must never be refuted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import StrEnum

from ptxsan.prove.law import Integers, Number
from ptxsan_support import planted_unwritten
from ptxsan_support.proofs import SAFE, Subject, subject_of, up


class Expected(StrEnum):
    """What is planted: nothing, a fault of memory, one of order (races, barriers), or a read of
    memory that nobody wrote.
    """

    SAFE = "safe"
    MEMORY = "memory"
    RACES = "races"
    INITIALIZED = "initialized"


_ANYTHING = {
    "p0": Integers(low=Number(-(1 << 31)), high=Number((1 << 31) - 1), nbytes=4, free=True)
}
TWINS: tuple[Subject, ...] = (
    subject_of(
        "tree in dynamic shared memory",
        """extern "C" __global__ void k(const float* x, float* y, int cols) {
  extern __shared__ float part[];
  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(long long)blockIdx.x * cols + c];
  part[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll 1
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}""",
        "rows cols", lambda s: s["rows"], 128, "p:4*rows*cols p:4*rows i:cols", "rows*cols, rows",
        shared=lambda s: 512,
    ),
    subject_of(
        "histogram by atomics",
        """extern "C" __global__ void k(const int* x, int* bins, int n, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { int b = x[i]; if (b >= 0 && b < count) atomicAdd(&bins[b], 1); }
}""",
        "n count", lambda s: up(s["n"], 128), 128, "p:4*n p:4*count i:n i:count", "n, count",
        integers=_ANYTHING,
    ),
    subject_of(
        "neighbors through shared memory",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x] + s[(threadIdx.x + 1) % 256];
}""",
        "n", lambda s: up(s["n"], 256), 256, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "running sums in two buffers",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float a[2][128];
  int i = blockIdx.x * 128 + threadIdx.x;
  a[0][threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  int from = 0;
#pragma unroll
  for (int d = 1; d < 128; d *= 2) {
    float v = a[from][threadIdx.x];
    if (threadIdx.x >= d) v += a[from][threadIdx.x - d];
    a[1 - from][threadIdx.x] = v;
    from = 1 - from;
    __syncthreads();
  }
  if (i < n) y[i] = a[from][threadIdx.x];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "one sum a block",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  __shared__ float parts[4];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*up(n,128) i:n", "n",
    ),
    subject_of(
        "stencil with a halo",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[130];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x + 1] = i < n ? x[i] : 0.f;
  if (threadIdx.x == 0) s[0] = i > 0 ? x[i - 1] : 0.f;
  if (threadIdx.x == 127) s[129] = i + 1 < n ? x[i + 1] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x] + s[threadIdx.x + 1] + s[threadIdx.x + 2];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "tiles in a loop",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[64];
  float sum = 0.f;
  for (int t = 0; t < rows; ++t) {
    int c = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = c < cols ? x[t * cols + c] : 0.f;
    __syncthreads();
    sum += tile[63 - threadIdx.x];
    __syncthreads();
  }
  int c = blockIdx.x * 64 + threadIdx.x;
  if (c < cols) y[c] = sum;
}""",
        "rows cols", lambda s: up(s["cols"], 64), 64, "p:4*rows*cols p:4*cols i:rows i:cols",
        "rows*cols, cols",
    ),
    subject_of(
        "rows gathered by clamped indices",
        """extern "C" __global__ void k(const int* index, const float* x, float* y,
                              int n, int rows, int cols) {
  int r = blockIdx.x;
  int from = min(max(index[r], 0), rows - 1);
  for (int c = threadIdx.x; c < cols; c += 64)
    y[(long long)r * cols + c] = x[(long long)from * cols + c];
}""",
        "n rows cols", lambda s: s["n"], 64, "p:4*n p:4*rows*cols p:4*n*cols i:n i:rows i:cols",
        "n*cols, rows*cols", integers=_ANYTHING,
    ),
)  # fmt: skip

_M, _R = Expected.MEMORY, Expected.RACES
# Beginning of the twin's name -> (what is planted, its kind, the text, what replaces it)
_FAULTS: tuple[tuple[str, tuple[tuple[str, Expected, str, str], ...]], ...] = (
    ("elementwise", (
        ("the last guard admits one more", _M, "i < n", "i <= n"),
        ("no guard", _M, "if (i < n) ", ""),
        ("at one size in a million", _M, "y[i]", "y[i + (n == 999983)]"),
        ("before the first, at one size", _M, "y[i]", "y[i - (n == 77777)]"),
        ("under one data value", _M, "y[i]", "y[i + (x[i] == 12345.f)]"),
        ("an index in bytes that wraps", _M, "y[i] =", "*(float*)((char*)y + (int)(i * 4u)) ="),
        ("two threads, one element", _R, "y[i]", "y[i / 2]"),
        ("all threads, one element", _R, "y[i]", "y[0]"),
        ("reads what others write", _R, "x[i] > 0.f ? x[i] : 0.f", "y[n - 1 - i]"),
        ("two blocks meet at one size", _R, "y[i]", "y[n == 65537 ? i % 65536 : i]"),
    )),
    ("grid stride", (
        ("one more", _M, "i < n", "i <= n"),
        ("wraps around", _R, "y[i]", "y[i % 1000]"),
        ("a stride too short", _R, "(long long)gridDim.x * blockDim.x", "blockDim.x"),
        ("a negative start at 2^31", _M, "long long i = blockIdx.x * (long long)blockDim.x",
         "int i = blockIdx.x * blockDim.x"),
    )),
    ("four at once", (
        ("rounded up", _M, "n / 4", "(n + 3) / 4"),
        ("the tail begins one early", _R, "j = quads * 4", "j = quads * 4 - (quads > 70)"),
        ("not aligned", _M, "<const float4*>(x)[i]", "<const float4*>(x + (n > 9))[i]"),
        ("the tail by every thread", _R, "if (i == 0)", "if (i >= 0)"),
    )),
    ("rows: mean", (
        ("a shared array too short", _M, "part[256]", "part[255]"),
        ("no barrier before the tree", _R, "= sum;\n  __syncthreads();", "= sum;"),
        ("no barrier in the tree", _R, "+ s];\n    __syncthreads();", "+ s];"),
        ("one thread too many in the tree", _M, "threadIdx.x < s", "threadIdx.x <= s"),
        ("a row too far at one size", _M, "y[row]", "y[row + (rows == 100003)]"),
        ("two threads store", _R, "threadIdx.x == 0", "threadIdx.x < 2"),
        ("a barrier for some threads", _R, "+ s];\n    __syncthreads();",
         "+ s], __syncthreads();"),
    )),
    ("matrix product", (
        ("no barrier after the tiles are used", _R, "tb[i][threadIdx.x];\n    __syncthreads();",
         "tb[i][threadIdx.x];"),
        ("no barrier before the tiles are used", _R, ": 0.f;\n    __syncthreads();", ": 0.f;"),
        ("a row too many", _M, "if (row < m && col < n)", "if (row <= m && col < n)"),
        ("rows overlap at one width", _R, "c[row * n + col]", "c[row * (n - (n == 5003)) + col]"),
        ("a tile too narrow", _M, "tb[16][17]", "tb[15][16]"),
    )),
    ("transpose", (
        ("no barrier", _R, "  __syncthreads();\n", ""),
        ("a tile too small", _M, "tile[32][33]", "tile[31][33]"),
        ("a column too many", _M, "if (c < rows", "if (c <= rows"),
        ("sides swapped", _M, "y[(r + j) * rows + c]", "y[c * rows + r + j]"),
    )),
    ("convolution", (
        ("one beyond the row, seen at the end", _M, "c < cols)", "c <= cols)"),
        ("one before the row, seen at the start", _M, "c >= 0", "c >= -1"),
        ("one tap too far", _M, "w[t]", "w[t + (taps == 61)]"),
    )),
    ("planes", (
        ("a column too far", _M, "s[w + 1]", "s[w + 2]"),
        ("planes overlap at one height", _R, "y[i]", "y[h == 4098 ? i / 2 : i]"),
    )),
    ("rows in dynamic", (
        ("reversed by one too many", _M, "row[cols - 1 - c]", "row[cols - c]"),
        ("no barrier", _R, "  __syncthreads();\n", ""),
        ("rows overlap by one", _R, "y + (long long)blockIdx.x * cols",
         "y + (long long)blockIdx.x * (cols - 1)"),
    )),
    ("running sum backward", (
        ("from the end", _M, "c = cols - 1", "c = cols"),
        ("a row too many", _M, "row >= rows", "row > rows"),
        ("rows overlap at one width", _R, "y[row * cols + c] =",
         "y[row * (cols - (cols == 4099)) + c] ="),
    )),
    ("tree in dynamic", (
        ("one thread too many", _M, "threadIdx.x < s", "threadIdx.x <= s"),
        ("no barrier in the loop", _R, "+ s];\n    __syncthreads();", "+ s];"),
        ("a barrier for some threads", _R, "+ s];\n    __syncthreads();",
         "+ s], __syncthreads();"),
        ("no barrier before", _R, "= sum;\n  __syncthreads();", "= sum;"),
        ("begins too high", _M, "blockDim.x / 2;", "blockDim.x;"),
    )),
    ("histogram", (
        ("no atomics", _R, "atomicAdd(&bins[b], 1)", "bins[b] += 1"),
        ("no upper bound", _M, "b >= 0 && b < count", "b >= 0"),
        ("one bin too many", _M, "b < count", "b <= count"),
        ("atomics of a block only", _R, "atomicAdd(", "atomicAdd_block("),
    )),
    ("neighbors", (
        ("no barrier", _R, "  __syncthreads();\n", ""),
        ("the neighbor of the last", _M, "(threadIdx.x + 1) % 256", "threadIdx.x + 1"),
        ("a barrier behind a guard", _R, "  __syncthreads();\n", "  if (i < n) __syncthreads();\n"),
    )),
    ("running sums in two", (
        ("one buffer", _R, "a[1 - from][threadIdx.x] = v", "a[from][threadIdx.x] = v"),
        ("no barrier", _R, "from = 1 - from;\n    __syncthreads();", "from = 1 - from;"),
        ("one step too far back", _M, "a[from][threadIdx.x - d]",
         "a[from][(int)threadIdx.x - 2 * d]"),
    )),
    ("one sum a block", (
        ("the next block's", _M, "y[blockIdx.x]", "y[blockIdx.x + 1]"),
        ("two blocks, one place", _R, "y[blockIdx.x]", "y[blockIdx.x / 2]"),
        ("no barrier", _R, "  __syncthreads();\n", ""),
        ("in the last block of many", _M, "y[blockIdx.x]",
         "y[blockIdx.x + (blockIdx.x == 5000)]"),
    )),
    ("stencil", (
        ("a halo too short", _M, "s[130]", "s[129]"),
        ("no barrier", _R, "  __syncthreads();\n", ""),
        ("reads before the first", _M, "i > 0 ? x[i - 1] : 0.f", "x[i - 1]"),
        ("the end by two threads", _R, "threadIdx.x == 127", "threadIdx.x >= 126"),
    )),
    ("tiles in a loop", (
        ("no second barrier", _R, "tile[63 - threadIdx.x];\n    __syncthreads();",
         "tile[63 - threadIdx.x];"),
        ("no first barrier", _R, ": 0.f;\n    __syncthreads();", ": 0.f;"),
        ("a row too many", _M, "t < rows", "t <= rows"),
        ("a barrier behind a guard", _R, "sum += tile[63 - threadIdx.x];\n    __syncthreads();",
         "sum += tile[63 - threadIdx.x];\n    if (c < cols) __syncthreads();"),
    )),
    ("rows gathered", (
        ("not clamped from above", _M, "min(max(index[r], 0), rows - 1)", "max(index[r], 0)"),
        ("clamped one too far", _M, "rows - 1)", "rows)"),
        ("under one index", _M, "from * cols + c]",
         "(from + (index[r] == 123457) * rows) * cols + c]"),
        ("two blocks, one row", _R, "y[(long long)r * cols", "y[(long long)(r / 2) * cols"),
    )),
)  # fmt: skip


_SHOWN_AT_2_31 = ("an index in bytes that wraps", "a negative start at 2^31")


def _every() -> Iterator[tuple[str, Expected, Subject]]:
    twins = {one.name: one for one in (*SAFE, *TWINS, *planted_unwritten.TWINS)}
    for name, twin in twins.items():
        yield name, Expected.SAFE, twin
    unwritten = tuple(
        (start, tuple((what, Expected.INITIALIZED, old, new) for what, old, new in faults))
        for start, faults in planted_unwritten.FAULTS
    )
    for start, faults in (*_FAULTS, *unwritten):
        (twin,) = (
            one
            for name, one in twins.items()
            if name == start or (name.startswith(start) and start not in twins)
        )
        for what, kind, old, new in faults:
            assert old in twin.source, (start, what)
            source = twin.source.replace(old, new, 1)
            listed = (1 << 31) - 1 if what in _SHOWN_AT_2_31 else 0
            fault = dataclasses.replace(twin, source=source, listed=listed)
            yield f"{twin.name}: {what}", kind, fault


PLANTED: tuple[tuple[str, Expected, Subject], ...] = tuple(_every())
