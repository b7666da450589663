"""Reads of memory that nobody wrote, planted in kernels that write all they read.

As in `planted_proofs`: a fault is a safe kernel with one text replaced.
"""

from __future__ import annotations

from ptxsan.prove.machine import AxisDomain
from ptxsan_support.planting import Expected, Fault, Planted
from ptxsan_support.proofs import Subject, subject_of, up

TWINS: tuple[Subject, ...] = (
    subject_of(
        "sum of a tile with a tail",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.f;
    for (int j = 0; j < 128; ++j) sum += tile[j];
    y[blockIdx.x] = sum;
  }
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*up(n,128) i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "three points with halos",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[66];
  int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x;
  s[t + 1] = i < n ? x[i] : 0.f;
  if (t == 0) s[0] = i > 0 ? x[i - 1] : 0.f;
  if (t == 63) s[65] = i + 1 < n ? x[i + 1] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[t] + s[t + 1] + s[t + 2];
}""",
        "n", lambda s: up(s["n"], 64), 64, "p:4*n p:4*n i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "a slot a warp",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float parts[4];
  int i = blockIdx.x * 128 + threadIdx.x;
  float v = i < n ? x[i] : 0.f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*up(n,128) i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "tiles in two stages",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[2][64];
  int c = blockIdx.x * 64 + threadIdx.x;
  tile[0][threadIdx.x] = c < cols ? x[c] : 0.f;
  __syncthreads();
  float sum = 0.f;
#pragma unroll 1
  for (int t = 0; t < rows; ++t) {
    if (t + 1 < rows) tile[(t + 1) & 1][threadIdx.x] = c < cols ? x[(t + 1) * cols + c] : 0.f;
    sum += tile[t & 1][63 - threadIdx.x];
    __syncthreads();
  }
  if (c < cols) y[c] = sum;
}""",
        "rows cols", lambda s: up(s["cols"], 64), 64, "p:4*rows*cols p:4*cols i:rows i:cols",
        "rows*cols, cols", unwritten=(1,),
    ),
    subject_of(
        "a result that is added to",
        """extern "C" __global__ void k(const float* x, volatile float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = x[i]; y[i] += 2.f; }
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "bins of a block",
        """extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int bins[256];
  for (int b = threadIdx.x; b < 256; b += 128) bins[b] = 0;
  __syncthreads();
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) atomicAdd(&bins[x[i] & 255], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += 128) y[blockIdx.x * 256 + b] = bins[b];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:1024*up(n,128) i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "rows held in shared memory",
        """extern "C" __global__ void k(const float* x, float* y, int cols) {
  extern __shared__ float row[];
  const float* from = x + (long long)blockIdx.x * cols;
#pragma unroll 1
  for (int c = threadIdx.x; c < cols; c += 64) row[c] = from[c];
  __syncthreads();
  float* to = y + (long long)blockIdx.x * cols;
#pragma unroll 1
  for (int c = threadIdx.x; c < cols; c += 64) to[c] = row[cols - 1 - c];
}""",
        "rows cols", lambda s: s["rows"], 64, "p:4*rows*cols p:4*rows*cols i:cols", "rows*cols",
        shared=lambda s: 4 * s["cols"], cols=AxisDomain(low=1, high=8192), unwritten=(1,),
    ),
    subject_of(
        "an array of the thread",
        """extern "C" __global__ void k(const float* x, float* y, int n, int taps) {
  float held[16];
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
#pragma unroll 1
  for (int t = 0; t < taps; ++t) held[t] = x[i] * t;
  float sum = 0.f;
#pragma unroll 1
  for (int t = 0; t < taps; ++t) sum += held[taps - 1 - t];
  y[i] = sum;
}""",
        "n taps", lambda s: up(s["n"], 64), 64, "p:4*n p:4*n i:n i:taps", "n, taps",
        taps=AxisDomain(low=1, high=16), unwritten=(1,),
    ),
    subject_of(
        "a transposed tile",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (c < cols && r < rows) tile[threadIdx.y][threadIdx.x] = x[r * cols + c];
  __syncthreads();
  c = blockIdx.y * 16 + threadIdx.x; r = blockIdx.x * 16 + threadIdx.y;
  if (c < rows && r < cols) y[r * rows + c] = tile[threadIdx.x][threadIdx.y] * 2.f;
}""",
        "rows cols", (lambda s: up(s["cols"], 16), lambda s: up(s["rows"], 16)), (16, 16),
        "p:4*rows*cols p:4*rows*cols i:rows i:cols", "rows*cols", unwritten=(1,),
    ),
    subject_of(
        "a number that a thread tells its block",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float first;
  if (threadIdx.x == 0) first = x[blockIdx.x * 64] + 1.f;
  __syncthreads();
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = x[i] / first;
}""",
        "n", lambda s: up(s["n"], 64), 64, "p:4*n p:4*n i:n", "n", unwritten=(1,),
    ),
)  # fmt: skip

_I = Expected.INITIALIZED
FAULTS: tuple[Planted, ...] = (
    Planted("sum of a tile", (
        Fault("the tail is not loaded", _I,
              "tile[threadIdx.x] = i < n ? x[i] : 0.f",
              "if (i < n) tile[threadIdx.x] = x[i]",
              "tile[threadIdx.x] = 0.f; if (i < n) tile[threadIdx.x] = x[i]"),
        Fault("a thread too few loads", _I,
              "tile[threadIdx.x] = i",
              "if (threadIdx.x < 127) tile[threadIdx.x] = i",
              "if (threadIdx.x < 128) tile[threadIdx.x] = i"),
        Fault("at one size in a million", _I,
              "tile[threadIdx.x] = i",
              "if (n != 999983) tile[threadIdx.x] = i",
              "if (n != 999983) tile[threadIdx.x] = 1.f; tile[threadIdx.x] = i"),
    )),
    Planted("three points", (
        Fault("no halo before the first", _I,
              "if (t == 0) s[0] = i > 0 ? x[i - 1] : 0.f",
              "if (t == 0 && i > 0) s[0] = x[i - 1]",
              "if (t == 0 && i > 0) s[0] = x[i - 1]; if (t == 0 && i <= 0) s[0] = 0.f"),
        Fault("no halo behind", _I,
              "if (t == 63)",
              "if (t == 64)",
              "if (t >= 63)"),
        Fault("no halo behind the last", _I,
              "if (t == 63) s[65] = i + 1 < n ? x[i + 1] : 0.f",
              "if (t == 63 && i + 1 < n) s[65] = x[i + 1]",
              "if (t == 63) s[65] = 0.f; if (t == 63 && i + 1 < n) s[65] = x[i + 1]"),
    )),
    Planted("a slot a warp", (
        Fault("idle warps store nothing", _I,
              "threadIdx.x % 32 == 0)",
              "threadIdx.x % 32 == 0 && i < n)",
              "(i & 31) == 0)"),
        Fault("a slot too far", _I,
              "parts[threadIdx.x / 32] = v",
              "parts[threadIdx.x / 64] = v",
              "parts[threadIdx.x >> 5] = v"),
    )),
    Planted("tiles in two stages", (
        Fault("a stage early", _I,
              "tile[t & 1][63",
              "tile[(t + 1) & 1][63",
              "tile[t % 2][63"),
        Fault("no first stage", _I,
              "  tile[0][threadIdx.x] = c < cols ? x[c] : 0.f;",
              "",
              "  tile[0][threadIdx.x] = 0.f; if (c < cols) tile[0][threadIdx.x] = x[c];"),
        Fault("columns behind the last", _I,
              "tile[0][threadIdx.x] = c < cols ? x[c] : 0.f",
              "if (c < cols) tile[0][threadIdx.x] = x[c]",
              "if (c < cols) tile[0][threadIdx.x] = x[c]; else tile[0][threadIdx.x] = 0.f"),
    )),
    Planted("a result that", (
        Fault("added to memory that is empty", _I,
              "y[i] = x[i]; ",
              "",
              "y[i] = 0.f; "),
        Fault("the last is only added to", _I,
              "y[i] = x[i]; ",
              "if (i < n - 1) y[i] = x[i]; ",
              "if (i < n - 1) y[i] = x[i]; else y[i] = 1.f; "),
        Fault("at one size in a million", _I,
              "y[i] = x[i]; ",
              "if (n != 100003) y[i] = x[i]; ",
              "if (n != 100003) y[i] = x[i]; else y[i] = 0.f; "),
    )),
    Planted("bins of", (
        Fault("as many bins as threads", _I,
              "for (int b = threadIdx.x; b < 256; b += 128) bins[b] = 0",
              "bins[threadIdx.x] = 0",
              "bins[threadIdx.x] = 0, bins[threadIdx.x + 128] = 0"),
        Fault("the last bin is left out", _I,
              "b < 256; b += 128) bins",
              "b < 255; b += 128) bins",
              "b <= 255; b += 128) bins"),
    )),
    Planted("rows held", (
        Fault("the last column is not held", _I,
              "c < cols; c += 64) row",
              "c < cols - 1; c += 64) row",
              "c <= cols - 1; c += 64) row"),
        Fault("a stride too long", _I,
              "c += 64) row[c] = from[c]",
              "c += 65) row[c] = from[c]",
              "c += blockDim.x) row[c] = from[c]"),
        Fault("at one width", _I,
              "c < cols; c += 64) row",
              "c < cols - (cols == 4099); c += 64) row",
              "c < (cols == 4099 ? 4099 : cols); c += 64) row"),
    )),
    Planted("an array", (
        Fault("the first is left out", _I,
              "int t = 0; t < taps; ++t) held",
              "int t = 1; t < taps; ++t) held",
              "int t = taps - 1; t >= 0; --t) held"),
        Fault("the last is left out", _I,
              "t < taps; ++t) held",
              "t < taps - 1; ++t) held",
              "t <= taps - 1; ++t) held"),
    )),
    Planted("a transposed", (
        Fault("a column less", _I,
              "if (c < cols && r < rows) tile",
              "if (c < cols - 1 && r < rows) tile",
              "if (c <= cols - 1 && r < rows) tile"),
        Fault("the last row", _I,
              "if (c < cols && r < rows) tile",
              "if (c < cols && r + 1 < rows) tile",
              "if (c < cols && r + 1 <= rows) tile"),
    )),
    Planted("a number that", (
        Fault("under one value", _I,
              "if (threadIdx.x == 0) first",
              "if (threadIdx.x == 0 && x[0] != 0.f) first",
              "if (threadIdx.x == 0) first = 1.f; if (threadIdx.x == 0 && x[0] != 0.f) first"),
        Fault("by a thread that is not there", _I,
              "threadIdx.x == 0",
              "threadIdx.x == 64",
              "threadIdx.x == 63"),
    )),
)  # fmt: skip
