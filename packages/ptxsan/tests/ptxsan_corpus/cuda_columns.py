"""Kernels for sm_90: tensor copies in im2col mode, as convolutions and pixel by pixel."""

from __future__ import annotations

import numpy as np

from ptxsan.launch import Columns
from ptxsan_corpus.case import F32, I32, Empty, Kernel, Tile, draw, normal, wide
from ptxsan_corpus.hopper_words import WORDS

ARCH = "sm_90a"
_LOADS = "".join(
    f"""
__device__ inline void columns{rank}(void* to, const TensorMap* map, {at}, {by}, u64* b) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {{{coordinates}}}], [%{rank + 2}], {{{offsets}}};"
                 :: "r"(at(to)), "l"(map), {given}, "r"(at(b)), {further} : "memory");
}}
"""
    for rank, at, by, coordinates, offsets, given, further in (
        (3, "int c, int w, int n", "unsigned short ow", "%2, %3, %4", "%6",
         '"r"(c), "r"(w), "r"(n)', '"h"(ow)'),
        (4, "int c, int w, int h, int n", "unsigned short ow, unsigned short oh",
         "%2, %3, %4, %5", "%7, %8", '"r"(c), "r"(w), "r"(h), "r"(n)', '"h"(ow), "h"(oh)'),
        (5, "int c, int w, int h, int d, int n",
         "unsigned short ow, unsigned short oh, unsigned short od", "%2, %3, %4, %5, %6",
         "%8, %9, %10", '"r"(c), "r"(w), "r"(h), "r"(d), "r"(n)', '"h"(ow), "h"(oh), "h"(od)'),
    )
)  # fmt: skip
_N, _H, _W, _C, _K = 2, 6, 9, 8, 4

CONVOLUTION = Kernel(
    name="columns_convolution_3x3",
    family="tensor copies",
    source=WORDS
    + _LOADS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap in, const float* w, float* y, const int* count) {
    __shared__ alignas(128) float s[9][32 * 8];
    __shared__ u64 bar;
    int t = threadIdx.x, first = 32 * blockIdx.x;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        int column = first % 9, row = first / 9 % 6, image = first / 54;
        bar_expect(&bar, sizeof(s));
        for (int i = 0; i < 9; ++i)
            columns4(s[i], &in, 0, column - 1, row - 1, image, i % 3, i / 3, &bar);
    }
    bar_wait(&bar, 0);
    int pixel = t / 4, k = t % 4;
    float sum = 0;
    for (int i = 0; i < 9; ++i)
        for (int c = 0; c < 8; ++c) sum += s[i][8 * pixel + c] * w[(k * 9 + i) * 8 + c];
    if (first + pixel < *count) y[4 * (first + pixel) + k] = sum;
}
""",
    make=draw(
        x=normal(_N * _H * _W * _C),
        w=normal(_K * 9 * _C),
        y=Empty(dtype=F32, size=_N * _H * _W * _K),
        count=np.array([_N * _H * _W], dtype=I32),
    ),
    expect=lambda m: {"y": _convolution(wide(m["x"]), wide(m["w"]))},
    arguments=(
        Tile(buffer="x", element="f32", sizes=(_C, _W, _H, _N),
             strides=(4 * _C, 4 * _C * _W, 4 * _C * _W * _H),
             columns=Columns(lower=(-1, -1), upper=(-1, -1), channels=8, pixels=32)),
        "w", "y", "count",
    ),
    grid=(4, 1, 1),
    block=(128, 1, 1),
    arch=ARCH,
)  # fmt: skip


def _convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """3 x 3, padded by one: y[n, h, w, k]."""
    image = np.pad(x.reshape(_N, _H, _W, _C), ((0, 0), (1, 1), (1, 1), (0, 0)))
    weights, y = w.reshape(_K, 3, 3, _C), np.zeros((_N, _H, _W, _K))
    for i in range(3):
        for j in range(3):
            y += image[:, i : i + _H, j : j + _W] @ weights[:, i, j].T
    return y.reshape(-1)


def columns_of(
    x: np.ndarray, tile: Tile, at: tuple[int, ...], offsets: tuple[int, ...]
) -> np.ndarray:
    """Return what a copy in im2col mode takes of a tensor (outermost dimension first).

    `at` has the coordinates of the first pixel and channel, innermost first.
    """
    assert tile.columns is not None
    rank, one = len(tile.sizes), tile.columns
    steps = tile.steps or (1,) * rank
    lower = one.lower
    upper = [size - 1 + high for size, high in zip(tile.sizes[1:-1], one.upper, strict=True)]
    place, rows = list(at[1:]), []
    for _ in range(one.pixels):
        pixel = [a + o for a, o in zip(place, (*offsets, 0), strict=True)]
        row = np.zeros(one.channels, dtype=x.dtype)
        if all(0 <= p < size for p, size in zip(pixel, tile.sizes[1:], strict=True)):
            found = x[tuple(reversed(pixel))][at[0] : at[0] + one.channels]
            row[: len(found)] = found
        rows.append(row)
        for axis in range(rank - 2):
            place[axis] += steps[axis + 1]
            if place[axis] <= upper[axis]:
                break
            place[axis] = lower[axis]
        else:
            place[rank - 2] += 1
    return np.concatenate(rows)


_STRIDED = Tile(
    buffer="x", element="s32", sizes=(12, 11, 7, 3), strides=(48, 528, 3696), steps=(1, 2, 3, 1),
    columns=Columns(lower=(-2, -1), upper=(-1, 2), channels=8, pixels=24),
)  # fmt: skip
# (first channel, w, h, n), (offset w, offset h)
_STARTS = (
    ((0, -2, -1, 0), (0, 0)), ((4, 4, 2, 1), (1, 3)), ((8, 8, 8, 2), (2, 0)), ((0, 1, 0, 1), (5, 1)),
)  # fmt: skip

STRIDED = Kernel(
    name="columns_strided_pixels",
    family="tensor copies",
    source=WORDS
    + _LOADS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap in, const int* starts, int* y) {
    __shared__ alignas(128) int s[24 * 8];
    __shared__ u64 bar;
    int t = threadIdx.x;
    const int* at = starts + 6 * blockIdx.x;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        bar_expect(&bar, sizeof(s));
        columns4(s, &in, at[0], at[1], at[2], at[3], at[4], at[5], &bar);
    }
    bar_wait(&bar, 0);
    for (int i = t; i < 192; i += 64) y[192 * blockIdx.x + i] = s[i];
}
""",
    make=draw(
        x=np.arange(1, 12 * 11 * 7 * 3 + 1, dtype=I32),
        starts=np.array([[*at, *by] for at, by in _STARTS], dtype=I32).reshape(-1),
        y=Empty(dtype=I32, size=192 * len(_STARTS)),
    ),
    expect=lambda m: {
        "y": np.concatenate(
            [columns_of(m["x"].reshape(3, 7, 11, 12), _STRIDED, at, by) for at, by in _STARTS]
        )
    },
    arguments=(_STRIDED, "starts", "y"),
    grid=(len(_STARTS), 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

_VOLUME = Tile(
    buffer="x", element="s32", sizes=(4, 5, 4, 3, 2), strides=(16, 80, 320, 960),
    columns=Columns(lower=(-1, 0, -1), upper=(0, -1, -1), channels=4, pixels=64),
)  # fmt: skip
_LINE = Tile(
    buffer="z", element="s32", sizes=(16, 37, 3), strides=(64, 2368), swizzle=64,
    columns=Columns(lower=(-3,), upper=(-2,), channels=16, pixels=48),
)  # fmt: skip

ODD_RANKS = Kernel(
    name="columns_line_and_volume",
    family="tensor copies",
    source=WORDS
    + _LOADS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap line, const __grid_constant__ TensorMap volume, int* y) {
    __shared__ alignas(1024) int a[48 * 16];
    __shared__ alignas(128) int b[64 * 4];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        bar_expect(&bar, sizeof(a) + sizeof(b));
        columns3(a, &line, 0, 20, 0, 2, &bar);
        columns5(b, &volume, 0, 3, 1, -1, 0, 1, 0, 1, &bar);
    }
    bar_wait(&bar, 0);
    for (int i = t; i < 768; i += 64) y[i] = a[i];
    for (int i = t; i < 256; i += 64) y[768 + i] = b[i];
}
""",
    make=draw(
        z=np.arange(1, 16 * 37 * 3 + 1, dtype=I32),
        x=np.arange(1, 4 * 5 * 4 * 3 * 2 + 1, dtype=I32),
        y=Empty(dtype=I32, size=1024),
    ),
    expect=lambda m: {"y": np.concatenate([_line(m["z"]), _volume(m["x"])])},
    arguments=(_LINE, _VOLUME, "y"),
    grid=(1, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)


def _line(z: np.ndarray) -> np.ndarray:
    """Swizzled: of every 512 bytes, 16-byte word i of row pair r lies at i ^ (r & 3)."""
    rows = columns_of(z.reshape(3, 37, 16), _LINE, (0, 20, 0), (2,)).reshape(48, 4, 4)
    turned = np.zeros_like(rows)
    for row in range(48):
        for word in range(4):
            turned[row, word ^ (row >> 1 & 3)] = rows[row, word]
    return turned.reshape(-1)


def _volume(x: np.ndarray) -> np.ndarray:
    return columns_of(x.reshape(2, 3, 4, 5, 4), _VOLUME, (0, 3, 1, -1, 0), (1, 0, 1))


_OUTWARD = Tile(
    buffer="y", element="s32", sizes=(8, 7, 5, 2), strides=(32, 224, 1120),
    columns=Columns(lower=(0, 1), upper=(0, -1), channels=8, pixels=32),
)  # fmt: skip

STORES = Kernel(
    name="columns_stored_and_added",
    family="tensor copies",
    source=WORDS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap out, const int* x) {
    __shared__ alignas(128) int s[32 * 8];
    int t = threadIdx.x;
    for (int i = t; i < 256; i += 64) s[i] = x[i];
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                     :: "l"(&out), "r"(0), "r"(4), "r"(2), "r"(0), "r"(at(s)) : "memory");
        bulk_commit();
        bulk_wait<0>();
        asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
                     :: "l"(&out), "r"(0), "r"(2), "r"(2), "r"(0), "r"(at(s)) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}
""",
    make=draw(y=np.zeros(8 * 7 * 5 * 2, dtype=I32), x=np.arange(1, 257, dtype=I32)),
    expect=lambda m: {"y": _scattered(m["x"])},
    arguments=(_OUTWARD, "x"),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)


def _scattered(x: np.ndarray) -> np.ndarray:
    """Number the places of y; what a copy would read of them is where it writes."""
    numbers = np.arange(1, 8 * 7 * 5 * 2 + 1).reshape(2, 5, 7, 8)
    y = np.zeros(8 * 7 * 5 * 2 + 1, dtype=np.int64)
    first = columns_of(numbers, _OUTWARD, (0, 4, 2, 0), (0, 0))
    second = columns_of(numbers, _OUTWARD, (0, 2, 2, 0), (0, 0))
    y[first] = x
    y[0] = 0
    np.add.at(y, second, x)
    return y[1:]


KERNELS = (CONVOLUTION, STRIDED, ODD_RANKS, STORES)
