"""CUDA kernels with the sizes that they are launched for: what proofs are tested on.

A `Subject` says how its launch follows from sizes; the law that a proof starts from is fitted to
launches made with it, as it would be to recorded ones.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from ptxsan.nvrtc import compile_ptx
from ptxsan.prove.law import Axis as AxisOf
from ptxsan.prove.law import CallLaw, Expression, Integers, Launched, Observation, Sum, laws
from ptxsan.prove.machine import AxisDomain, Domain

Sizes = Mapping[str, int]
Dim = Callable[[Sizes], int]
POOL = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 100, 127, 128, 129, 200, 256, 300)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A kernel `k` of a source. `arguments` are ("p", bytes of the buffer), ("i", 32-bit value) or
    ("l", 64-bit value) or ("f", 0.5), all as functions of the sizes.
    """

    name: str
    source: str
    axes: Mapping[str, AxisDomain]
    grid: tuple[Dim, Dim, Dim]
    block: tuple[int, int, int]
    arguments: tuple[tuple[str, Dim], ...]
    elements: tuple[tuple[str, ...], ...]  # axes of each tensor
    shared: Dim = field(default=lambda sizes: 0)
    listed: int = 0  # elements that the proof has to cover
    integers: Mapping[str, Integers] = field(default_factory=dict)  # of buffers: p0, p1, ...
    unwritten: frozenset[int] = frozenset()  # numbers of buffers that nobody wrote

    @property
    def domain(self) -> Domain:
        """What the proof is for."""
        products: list[Expression] = [
            Sum(((1, tuple(AxisOf(name) for name in names)),)) for names in self.elements
        ]
        return Domain(axes=self.axes, elements=tuple(products), listed=self.listed)

    @property
    def ptx(self) -> str:
        """The kernel as PTX."""
        return compiled(self.source)

    def observed(self, sizes: Sizes, module: str) -> Observation:
        """Return the launch at sizes."""
        place = 1 << 30
        arguments: list[bytes] = []
        regions: list[tuple[int, int]] = []
        for kind, value in self.arguments:
            number = value(sizes)
            match kind:
                case "p":
                    arguments.append(struct.pack("<Q", place))
                    regions.append((place, number))
                    place += number + (-number % 256) + 512
                case "i":
                    arguments.append(struct.pack("<i", number))
                case "l":
                    arguments.append(struct.pack("<q", number))
                case _:
                    arguments.append(struct.pack("<f", 0.5))
        grid = tuple(one(sizes) for one in self.grid)
        launched = Launched(
            module=module, kernel="k", grid=(grid[0], grid[1], grid[2]), block=self.block,
            shared_bytes=self.shared(sizes), arguments=tuple(arguments), regions=tuple(regions),
            names=tuple(f"p{number}" for number in range(len(regions))),
            unwritten=tuple(number in self.unwritten for number in range(len(regions))),
        )  # fmt: skip
        return Observation(sizes=sizes, launches=(launched,))

    def law(self, module: str = "") -> CallLaw:
        """Return the law of its launches, of another module where one is given."""
        draw = random.Random(7)
        rows: list[dict[str, int]] = []
        for _ in range(60):
            row = {}
            for name, legal in self.axes.items():
                pool = [n * legal.multiple for n in POOL]
                row[name] = draw.choice(
                    [n for n in pool if legal.low <= n <= (legal.high or n)] or [legal.low]
                )
            if row not in rows:
                rows.append(row)
        (found,) = laws([self.observed(row, module or self.ptx) for row in rows])
        return found

    def small_sizes(self, count: int) -> list[dict[str, int]]:
        """Return sizes to run it at: around multiples of what kernels care for."""
        ladders = {
            name: [
                n * legal.multiple
                for n in (1, 2, 3, 5, 16, 17, 31, 33, 64, 65, 129, 257)
                if legal.low <= n * legal.multiple <= (legal.high or 10**9)
            ]
            for name, legal in self.axes.items()
        }
        every = [
            dict(zip(ladders, chosen, strict=True))
            for chosen in itertools.product(*ladders.values())
        ]
        random.Random(5).shuffle(every)
        return every[:count]


@cache
def compiled(source: str) -> str:
    """Return a source as PTX for sm_90."""
    return compile_ptx(source, arch="sm_90")


def up(value: int, step: int) -> int:
    return -(-value // step)


_ANY = AxisDomain()
_ONE: Dim = lambda s: 1  # noqa: E731


def subject_of(
    name: str, source: str, axes: str, grid: Dim | tuple[Dim, ...], block: int | tuple[int, int],
    arguments: str, elements: str, shared: Dim = lambda s: 0,
    integers: Mapping[str, Integers] | None = None, unwritten: tuple[int, ...] = (),
    **legal: AxisDomain,
) -> Subject:  # fmt: skip
    """Read `p:4*n*m i:n` as arguments and `n*m, n` as tensors."""
    dims = grid if isinstance(grid, tuple) else (grid,)
    sides = block if isinstance(block, tuple) else (block, 1)

    def value(text: str) -> Dim:
        code = compile(text, name, "eval")
        return lambda sizes: int(eval(code, {"up": up, "min": min}, dict(sizes)))

    parts = [one.partition(":") for one in arguments.split()]
    padded = (*dims, _ONE, _ONE)[:3]
    return Subject(
        name=name,
        source=source,
        axes={axis: legal.get(axis, _ANY) for axis in axes.split()},
        grid=(padded[0], padded[1], padded[2]),
        block=(sides[0], sides[1], 1),
        arguments=tuple((kind, value(text or "0")) for kind, _, text in parts),
        elements=tuple(tuple(one.strip().split("*")) for one in elements.split(",")),
        shared=shared,
        integers=integers or {},
        unwritten=frozenset(unwritten),
    )


SAFE: tuple[Subject, ...] = (
    subject_of(
        "elementwise",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f;
}""",
        "n m", lambda s: up(s["n"] * s["m"], 256), 256, "p:4*n*m p:4*n*m i:n*m", "n*m",
    ),
    subject_of(
        "grid stride, few blocks",
        """extern "C" __global__ void k(const float* x, float* y, long long n) {
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = expf(x[i]);
}""",
        "n", lambda s: min(up(s["n"], 256), 4), 256, "p:4*n p:4*n l:n", "n",
    ),
    subject_of(
        "four at once with a tail",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int quads = n / 4;
  if (i < quads) {
    float4 v = reinterpret_cast<const float4*>(x)[i];
    v.x *= 2.f; v.y *= 2.f; v.z *= 2.f; v.w *= 2.f;
    reinterpret_cast<float4*>(y)[i] = v;
  }
  if (i == 0) for (int j = quads * 4; j < n; ++j) y[j] = 2.f * x[j];
}""",
        "n", lambda s: up(up(s["n"], 4), 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "rows: mean of each",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float part[256];
  int row = blockIdx.x;
  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[row * cols + c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[row] = part[0] / cols;
}""",
        "rows cols", lambda s: s["rows"], 256, "p:4*rows*cols p:4*rows i:rows i:cols",
        "rows*cols, rows",
    ),
    subject_of(
        "matrix product in tiles",
        """extern "C" __global__ void k(const float* a, const float* b, float* c,
                              int m, int n, int kk) {
  __shared__ float ta[16][16], tb[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.f;
  for (int t = 0; t < (kk + 15) / 16; ++t) {
    int ka = t * 16 + threadIdx.x, kb = t * 16 + threadIdx.y;
    ta[threadIdx.y][threadIdx.x] = row < m && ka < kk ? a[row * kk + ka] : 0.f;
    tb[threadIdx.y][threadIdx.x] = kb < kk && col < n ? b[kb * n + col] : 0.f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}""",
        "m n kk", (lambda s: up(s["n"], 16), lambda s: up(s["m"], 16)), (16, 16),
        "p:4*m*kk p:4*kk*n p:4*m*n i:m i:n i:kk", "m*kk, kk*n, m*n",
    ),
    subject_of(
        "transpose through shared memory",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (c < cols && r + j < rows) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * cols + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (c < rows && r + j < cols) y[(r + j) * rows + c] = tile[threadIdx.x][threadIdx.y + j];
}""",
        "rows cols", (lambda s: up(s["cols"], 32), lambda s: up(s["rows"], 32)), (32, 8),
        "p:4*rows*cols p:4*rows*cols i:rows i:cols", "rows*cols",
    ),
    subject_of(
        "convolution along rows",
        """extern "C" __global__ void k(const float* x, const float* w, float* y,
                              int rows, int cols, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int row = i / cols, col = i % cols;
  float sum = 0.f;
  for (int t = 0; t < taps; ++t) {
    int c = col + t - taps / 2;
    if (c >= 0 && c < cols) sum += x[row * cols + c] * w[t];
  }
  y[i] = sum;
}""",
        "rows cols taps", lambda s: up(s["rows"] * s["cols"], 128), 128,
        "p:4*rows*cols p:4*taps p:4*rows*cols i:rows i:cols i:taps", "rows*cols, taps",
        taps=AxisDomain(low=1, high=64),
    ),
    subject_of(
        "planes: pooling by two",
        """extern "C" __global__ void k(const float* x, float* y, int planes, int h, int w) {
  int oh = h / 2, ow = w / 2;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= planes * oh * ow) return;
  int c = i % ow, r = i / ow % oh, p = i / (ow * oh);
  const float* s = x + (p * h + 2 * r) * w + 2 * c;
  y[i] = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[w], s[w + 1]));
}""",
        "planes h w", lambda s: up(s["planes"] * s["h"] * s["w"] // 4, 128), 128,
        "p:4*planes*h*w p:planes*h*w i:planes i:h i:w", "planes*h*w",
        h=AxisDomain(low=2, multiple=2), w=AxisDomain(low=2, multiple=2),
    ),
    subject_of(
        "rows in dynamic shared memory",
        """extern "C" __global__ void k(const float* x, float* y, int cols) {
  extern __shared__ float row[];
  const float* from = x + (long long)blockIdx.x * cols;
  for (int c = threadIdx.x; c < cols; c += 64) row[c] = from[c];
  __syncthreads();
  float* to = y + (long long)blockIdx.x * cols;
  for (int c = threadIdx.x; c < cols; c += 64) to[c] = row[cols - 1 - c];
}""",
        "rows cols", lambda s: s["rows"], 64, "p:4*rows*cols p:4*rows*cols i:cols", "rows*cols",
        shared=lambda s: 4 * s["cols"], cols=AxisDomain(low=1, high=8192),
    ),
    subject_of(
        "running sum backward",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.f;
  for (int c = cols - 1; c >= 0; --c) { sum += x[row * cols + c]; y[row * cols + c] = sum; }
}""",
        "rows cols", lambda s: up(s["rows"], 64), 64, "p:4*rows*cols p:4*rows*cols i:rows i:cols",
        "rows*cols",
    ),
)  # fmt: skip

# Kernels that leave their memory, some at few sizes only; what is wrong is in the name.
FAULTY: tuple[Subject, ...] = (
    subject_of(
        "one behind the last element",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = x[min(i, n - 1)];
}""",
        "n", lambda s: up(s["n"], 256), 256, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "no guard for the last block",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}""",
        "n", lambda s: up(s["n"], 64), 64, "p:4*n p:4*n i:n", "n",
        n=AxisDomain(low=32, multiple=32),
    ),
    subject_of(
        "one size in many",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i + (n == 32771)] = x[i];
}""",
        "n", lambda s: up(s["n"], 256), 256, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "rows for columns",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[c * cols + r] = x[r * cols + c];
}""",
        "rows cols", (lambda s: up(s["cols"], 16), lambda s: up(s["rows"], 16)), (16, 16),
        "p:4*rows*cols p:4*rows*cols i:rows i:cols", "rows*cols",
    ),
    subject_of(
        "four at once in rows that are no multiples",
        """extern "C" __global__ void k(const float* x, float* y, int cols) {
  const float4* from = reinterpret_cast<const float4*>(x + blockIdx.x * cols);
  float4* to = reinterpret_cast<float4*>(y + blockIdx.x * cols);
  for (int c = threadIdx.x; c < cols / 4; c += 64) to[c] = from[c];
}""",
        "rows cols", lambda s: s["rows"], 64, "p:4*rows*cols p:4*rows*cols i:cols", "rows*cols",
    ),
    subject_of(
        "a tile that is a row too small",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float tile[127];
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) { tile[threadIdx.x] = x[i]; y[i] = tile[threadIdx.x] * 2.f; }
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "the neighbor of the last column",
        """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x;
  for (int c = threadIdx.x; c < cols; c += 64) y[row * cols + c] = x[row * cols + c + 1];
}""",
        "rows cols", lambda s: s["rows"], 64, "p:4*rows*cols p:4*rows*cols i:rows i:cols",
        "rows*cols",
    ),
)  # fmt: skip
