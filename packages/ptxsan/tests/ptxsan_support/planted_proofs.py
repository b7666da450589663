"""Faults planted in safe kernels, for proofs: each shows at few sizes, blocks, threads or values.

A fault is a safe kernel with one text replaced; its twin has another text there, and is safe. A
fault must never be proved free of what was planted; neither kernels nor twins may be refuted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ptxsan.prove.law import Integers, Number
from ptxsan_support import planted_spaces, planted_unwritten
from ptxsan_support.planting import Expected, Fault, Planted
from ptxsan_support.proofs import SAFE, Subject, subject_of, up

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
_FAULTS: tuple[Planted, ...] = (
    Planted("elementwise", (
        Fault("the last guard admits one more", _M,
              "i < n",
              "i <= n",
              "i <= n - 1"),
        Fault("no guard", _M,
              "if (i < n) ",
              "",
              "if (i - n < 0) "),
        Fault("at one size in a million", _M,
              "y[i]",
              "y[i + (n == 999983)]",
              "y[n == 999983 ? 999982 - i : i]"),
        Fault("before the first, at one size", _M,
              "y[i]",
              "y[i - (n == 77777)]",
              "y[n == 77777 ? 77776 - i : i]"),
        Fault("under one data value", _M,
              "y[i]",
              "y[i + (x[i] == 12345.f)]",
              "y[i - (x[i] == 12345.f && i < 0)]"),
        Fault("an index in bytes that wraps", _M,
              "y[i] =",
              "*(float*)((char*)y + (int)(i * 4u)) =",
              "*(float*)((char*)y + i * 4ll) ="),
        Fault("two threads, one element", _R,
              "y[i]",
              "y[i / 2]",
              "y[i / 2 * 2 + i % 2]"),
        Fault("all threads, one element", _R,
              "y[i]",
              "y[0]",
              "if (i == 0) y[0]"),
        Fault("reads what others write", _R,
              "x[i] > 0.f ? x[i] : 0.f",
              "y[n - 1 - i]",
              "x[n - 1 - i]"),
        Fault("two blocks meet at one size", _R,
              "y[i]",
              "y[n == 65537 ? i % 65536 : i]",
              "y[n == 65536 ? i % 65536 : i]"),
    )),
    Planted("grid stride", (
        Fault("one more", _M,
              "i < n",
              "i <= n",
              "i <= n - 1"),
        Fault("wraps around", _R,
              "y[i]",
              "y[i % 1000]",
              "y[i % n]"),
        Fault("a stride too short", _R,
              "(long long)gridDim.x * blockDim.x",
              "blockDim.x",
              "256ll * gridDim.x"),
        Fault("a negative start at 2^31", _M,
              "long long i = blockIdx.x * (long long)blockDim.x",
              "int i = blockIdx.x * blockDim.x",
              "long long i = blockIdx.x * blockDim.x"),
    )),
    Planted("four at once", (
        Fault("rounded up", _M,
              "n / 4",
              "(n + 3) / 4",
              "(n - n % 4) / 4"),
        Fault("the tail begins one early", _R,
              "j = quads * 4",
              "j = quads * 4 - (quads > 70)",
              "j = n - n % 4"),
        Fault("not aligned", _M,
              "<const float4*>(x)[i]",
              "<const float4*>(x + (n > 9))[i]",
              "<const float4*>(x + 4 * (n > 9))[n > 9 ? i - (i > 0) : i]"),
        Fault("the tail by every thread", _R,
              "if (i == 0)",
              "if (i >= 0)",
              "if (i == (n > 50))"),
    )),
    Planted("rows: mean", (
        Fault("a shared array too short", _M,
              "part[256]",
              "part[255]",
              "part[257]"),
        Fault("no barrier before the tree", _R,
              "= sum;\n  __syncthreads();",
              "= sum;",
              "= sum;\n  if (cols > 0) __syncthreads();"),
        Fault("no barrier in the tree", _R,
              "+ s];\n    __syncthreads();",
              "+ s];",
              "+ s];\n    __syncthreads();\n    __syncthreads();"),
        Fault("one thread too many in the tree", _M,
              "threadIdx.x < s",
              "threadIdx.x <= s",
              "threadIdx.x <= s - 1"),
        Fault("a row too far at one size", _M,
              "y[row]",
              "y[row + (rows == 100003)]",
              "y[rows == 100003 ? 100002 - row : row]"),
        Fault("two threads store", _R,
              "threadIdx.x == 0",
              "threadIdx.x < 2",
              "threadIdx.x < 1"),
        Fault("a barrier for some threads", _R,
              "+ s];\n    __syncthreads();",
              "+ s], __syncthreads();",
              "+ s];\n    if (s > 0) __syncthreads();"),
    )),
    Planted("matrix product", (
        Fault("no barrier after the tiles are used", _R,
              "tb[i][threadIdx.x];\n    __syncthreads();",
              "tb[i][threadIdx.x];",
              "tb[i][threadIdx.x];\n    if (t + 1 < (kk + 15) / 16) __syncthreads();"),
        Fault("no barrier before the tiles are used", _R,
              ": 0.f;\n    __syncthreads();",
              ": 0.f;",
              ": 0.f;\n    __threadfence_block();\n    __syncthreads();"),
        Fault("a row too many", _M,
              "if (row < m && col < n)",
              "if (row <= m && col < n)",
              "if (row <= m - 1 && col < n)"),
        Fault("rows overlap at one width", _R,
              "c[row * n + col]",
              "c[row * (n - (n == 5003)) + col]",
              "c[row * n + (n == 5003 ? n - 1 - col : col)]"),
        Fault("a tile too narrow", _M,
              "tb[16][17]",
              "tb[15][16]",
              "tb[16][16]"),
    )),
    Planted("transpose", (
        Fault("no barrier", _R,
              "  __syncthreads();\n",
              "",
              "  if (rows > 0) __syncthreads();\n"),
        Fault("a tile too small", _M,
              "tile[32][33]",
              "tile[31][33]",
              "tile[32][32]"),
        Fault("a column too many", _M,
              "if (c < rows",
              "if (c <= rows",
              "if (c <= rows - 1"),
        Fault("sides swapped", _M,
              "y[(r + j) * rows + c]",
              "y[c * rows + r + j]",
              "y[c + (r + j) * rows]"),
    )),
    Planted("convolution", (
        Fault("one beyond the row, seen at the end", _M,
              "c < cols)",
              "c <= cols)",
              "c <= cols - 1)"),
        Fault("one before the row, seen at the start", _M,
              "c >= 0",
              "c >= -1",
              "c > -1"),
        Fault("one tap too far", _M,
              "w[t]",
              "w[t + (taps == 61)]",
              "w[taps == 61 ? 60 - t : t]"),
    )),
    Planted("planes", (
        Fault("a column too far", _M,
              "s[w + 1]",
              "s[w + 2]",
              "s[w]"),
        Fault("planes overlap at one height", _R,
              "y[i]",
              "y[h == 4098 ? i / 2 : i]",
              "y[h == 4098 ? i / 2 * 2 + i % 2 : i]"),
    )),
    Planted("rows in dynamic", (
        Fault("reversed by one too many", _M,
              "row[cols - 1 - c]",
              "row[cols - c]",
              "row[cols - (c + 1)]"),
        Fault("no barrier", _R,
              "  __syncthreads();\n",
              "",
              "  if (cols > 0) __syncthreads();\n"),
        Fault("rows overlap by one", _R,
              "y + (long long)blockIdx.x * cols",
              "y + (long long)blockIdx.x * (cols - 1)",
              "y + (long long)(gridDim.x - 1 - blockIdx.x) * cols"),
    )),
    Planted("running sum backward", (
        Fault("from the end", _M,
              "c = cols - 1",
              "c = cols",
              "c = (cols > 0 ? cols : 1) - 1"),
        Fault("a row too many", _M,
              "row >= rows",
              "row > rows",
              "row > rows - 1"),
        Fault("rows overlap at one width", _R,
              "y[row * cols + c] =",
              "y[row * (cols - (cols == 4099)) + c] =",
              "y[row * cols + (cols == 4099 ? 4098 - c : c)] ="),
    )),
    Planted("tree in dynamic", (
        Fault("one thread too many", _M,
              "threadIdx.x < s",
              "threadIdx.x <= s",
              "threadIdx.x + 1 <= s"),
        Fault("no barrier in the loop", _R,
              "+ s];\n    __syncthreads();",
              "+ s];",
              "+ s];\n    __threadfence_block();\n    __syncthreads();"),
        Fault("a barrier for some threads", _R,
              "+ s];\n    __syncthreads();",
              "+ s], __syncthreads();",
              "+ s];\n    if (cols > 0) __syncthreads();"),
        Fault("no barrier before", _R,
              "= sum;\n  __syncthreads();",
              "= sum;",
              "= sum;\n  if (cols > 0) __syncthreads();"),
        Fault("begins too high", _M,
              "blockDim.x / 2;",
              "blockDim.x;",
              "blockDim.x / 4 * 2;"),
    )),
    Planted("histogram", (
        Fault("no atomics", _R,
              "atomicAdd(&bins[b], 1)",
              "bins[b] += 1",
              "atomicOr(&bins[b], 1)"),
        Fault("no upper bound", _M,
              "b >= 0 && b < count",
              "b >= 0",
              "(unsigned)b < count"),
        Fault("one bin too many", _M,
              "b < count",
              "b <= count",
              "b <= count - 1"),
        Fault("atomics of a block only", _R,
              "atomicAdd(",
              "atomicAdd_block(",
              "atomicAdd_system("),
    )),
    Planted("neighbors", (
        Fault("no barrier", _R,
              "  __syncthreads();\n",
              "",
              "  if (n > 0) __syncthreads();\n"),
        Fault("the neighbor of the last", _M,
              "(threadIdx.x + 1) % 256",
              "threadIdx.x + 1",
              "(threadIdx.x + 1) & 255"),
        Fault("a barrier behind a guard", _R,
              "  __syncthreads();\n",
              "  if (i < n) __syncthreads();\n",
              "  if (blockIdx.x * 256 < n) __syncthreads();\n"),
    )),
    Planted("running sums in two", (
        Fault("one buffer", _R,
              "a[1 - from][threadIdx.x] = v",
              "a[from][threadIdx.x] = v",
              "a[from ^ 1][threadIdx.x] = v"),
        Fault("no barrier", _R,
              "from = 1 - from;\n    __syncthreads();",
              "from = 1 - from;",
              "__syncthreads();\n    from = 1 - from;"),
        Fault("one step too far back", _M,
              "a[from][threadIdx.x - d]",
              "a[from][(int)threadIdx.x - 2 * d]",
              "a[from][(int)threadIdx.x - d]"),
    )),
    Planted("one sum a block", (
        Fault("the next block's", _M,
              "y[blockIdx.x]",
              "y[blockIdx.x + 1]",
              "y[gridDim.x - 1 - blockIdx.x]"),
        Fault("two blocks, one place", _R,
              "y[blockIdx.x]",
              "y[blockIdx.x / 2]",
              "y[blockIdx.x / 2 * 2 + blockIdx.x % 2]"),
        Fault("no barrier", _R,
              "  __syncthreads();\n",
              "",
              "  if (n > 0) __syncthreads();\n"),
        Fault("in the last block of many", _M,
              "y[blockIdx.x]",
              "y[blockIdx.x + (blockIdx.x == 5000)]",
              "y[gridDim.x > 5000 ? gridDim.x - 1 - blockIdx.x : blockIdx.x]"),
    )),
    Planted("stencil", (
        Fault("a halo too short", _M,
              "s[130]",
              "s[129]",
              "s[131]"),
        Fault("no barrier", _R,
              "  __syncthreads();\n",
              "",
              "  if (n > 0) __syncthreads();\n"),
        Fault("reads before the first", _M,
              "i > 0 ? x[i - 1] : 0.f",
              "x[i - 1]",
              "i > 0 ? x[i - 1] : x[i]"),
        Fault("the end by two threads", _R,
              "threadIdx.x == 127",
              "threadIdx.x >= 126",
              "threadIdx.x >= 127"),
    )),
    Planted("tiles in a loop", (
        Fault("no second barrier", _R,
              "tile[63 - threadIdx.x];\n    __syncthreads();",
              "tile[63 - threadIdx.x];",
              "tile[63 - threadIdx.x];\n    if (t + 1 < rows) __syncthreads();"),
        Fault("no first barrier", _R,
              ": 0.f;\n    __syncthreads();",
              ": 0.f;",
              ": 0.f;\n    if (rows > 0) __syncthreads();"),
        Fault("a row too many", _M,
              "t < rows",
              "t <= rows",
              "t <= rows - 1"),
        Fault("a barrier behind a guard", _R,
              "sum += tile[63 - threadIdx.x];\n    __syncthreads();",
              "sum += tile[63 - threadIdx.x];\n    if (c < cols) __syncthreads();",
              "sum += tile[63 - threadIdx.x];\n    if (blockIdx.x * 64 < cols) __syncthreads();"),
    )),
    Planted("rows gathered", (
        Fault("not clamped from above", _M,
              "min(max(index[r], 0), rows - 1)",
              "max(index[r], 0)",
              "max(min(index[r], rows - 1), 0)"),
        Fault("clamped one too far", _M,
              "rows - 1)",
              "rows)",
              "max(rows - 1, 0))"),
        Fault("under one index", _M,
              "from * cols + c]",
              "(from + (index[r] == 123457) * rows) * cols + c]",
              "(from - (index[r] == 123457) * from) * cols + c]"),
        Fault("two blocks, one row", _R,
              "y[(long long)r * cols",
              "y[(long long)(r / 2) * cols",
              "y[(long long)(n - 1 - r) * cols"),
    )),
)  # fmt: skip


_SHOWN_AT_2_31 = ("an index in bytes that wraps", "a negative start at 2^31")


def _every() -> Iterator[tuple[str, Expected, Subject]]:
    every = (*SAFE, *TWINS, *planted_unwritten.TWINS, *planted_spaces.TWINS)
    kernels = {one.name: one for one in every}
    for name, kernel in kernels.items():
        yield name, Expected.SAFE, kernel
    for planted in (*_FAULTS, *planted_unwritten.FAULTS, *planted_spaces.FAULTS):
        start = planted.kernel
        (kernel,) = (
            one
            for name, one in kernels.items()
            if name == start or (name.startswith(start) and start not in kernels)
        )
        for fault in planted.faults:
            assert fault.old in kernel.source, (start, fault.what)
            listed = (1 << 31) - 1 if fault.what in _SHOWN_AT_2_31 else 0
            for text, kind, named in (
                (fault.new, fault.kind, f"{kernel.name}: {fault.what}"),
                (fault.safe, Expected.SAFE, twin_of(f"{kernel.name}: {fault.what}")),
            ):
                source = kernel.source.replace(fault.old, text, 1)
                yield named, kind, dataclasses.replace(kernel, source=source, listed=listed)


def twin_of(fault: str) -> str:
    """Return the name of a planted fault's twin."""
    return f"{fault}, safe"


PLANTED: tuple[tuple[str, Expected, Subject], ...] = tuple(_every())
