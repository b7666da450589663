"""Kernels for sm_90: asynchronous stores and reductions, copies to several blocks of a cluster."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import F32, I32, Empty, Kernel, draw, normal, wide
from ptxsan_corpus.hopper_words import WORDS

ARCH = "sm_90a"
_STORES = """
__device__ inline void store_async(unsigned to, float v, unsigned b) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                 :: "r"(to), "f"(v), "r"(b) : "memory");
}
__device__ inline void store_async4(unsigned to, float4 v, unsigned b) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(b) : "memory");
}
"""

STORES = Kernel(
    name="cluster_async_stores",
    family="asynchronous stores",
    source=WORDS
    + _STORES
    + """
extern "C" __global__ void __cluster_dims__(4) k(const float* x, float* y) {
    __shared__ alignas(16) float row[128];
    __shared__ alignas(16) float halo[32];
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block(), next = (rank + 1) & 3;
    if (t == 0) { bar_init(&bar, 1); init_fence(); bar_expect(&bar, 640); }
    cluster_sync();
    float4 v = ((const float4*)x)[32 * blockIdx.x + t];
    store_async4(remote(row + 4 * t, next), v, remote(&bar, next));
    store_async(remote(halo + t, next), v.x - v.w, remote(&bar, next));
    bar_wait(&bar, 0);
    float sum = halo[31 - t];
    for (int i = 0; i < 4; ++i) sum += row[32 * i + t];
    y[32 * blockIdx.x + t] = sum;
    cluster_sync();
}
""",
    make=draw(x=normal(8 * 128), y=Empty(dtype=F32, size=8 * 32)),
    expect=lambda m: {"y": _ring(wide(m["x"]))},
    arguments=("x", "y"),
    grid=(8, 1, 1),
    block=(32, 1, 1),
    arch=ARCH,
)


def _ring(x: np.ndarray) -> np.ndarray:
    """Each block adds up what the one before it in its cluster sent."""
    rows = np.roll(x.reshape(2, 4, 128), 1, axis=1).reshape(8, 128)
    fours = rows.reshape(8, 32, 4)
    sums = rows.reshape(8, 4, 32).sum(1) + (fours[..., 0] - fours[..., 3])[:, ::-1]
    return np.asarray(sums).reshape(-1)


REDUCTIONS = Kernel(
    name="cluster_async_reductions",
    family="asynchronous stores",
    source=WORDS
    + """
__device__ inline void add_async(unsigned to, unsigned v, unsigned b) {
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
                 :: "r"(to), "r"(v), "r"(b) : "memory");
}
__device__ inline void largest_async(unsigned to, int v, unsigned b) {
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%0], %1, [%2];"
                 :: "r"(to), "r"(v), "r"(b) : "memory");
}
extern "C" __global__ void __cluster_dims__(2) k(const int* x, int* y) {
    __shared__ unsigned sums[16];
    __shared__ int largest;
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block();
    if (t < 16) sums[t] = 1000 * t;
    if (t == 0) {
        largest = -2147483647;
        bar_init(&bar, 1);
        init_fence();
        bar_expect(&bar, 2 * 64 * 8);
    }
    cluster_sync();
    int v = x[64 * blockIdx.x + t];
    for (int to = 0; to < 2; ++to) {
        add_async(remote(sums + (t + to & 15), to), v, remote(&bar, to));
        largest_async(remote(&largest, to), to ? v : -v, remote(&bar, to));
    }
    bar_wait(&bar, 0);
    if (t < 16) y[17 * blockIdx.x + t] = sums[t];
    if (t == 16) y[17 * blockIdx.x + 16] = largest;
    cluster_sync();
}
""",
    make=draw(
        x=lambda rng: rng.integers(-(2**20), 2**20, 128).astype(I32), y=Empty(dtype=I32, size=34)
    ),
    expect=lambda m: {"y": _sums(m["x"])},
    arguments=("x", "y"),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)


def _sums(x: np.ndarray) -> np.ndarray:
    """Sixteen sums over both blocks' values, turned by one in the second block, and a maximum."""
    sums = x.reshape(8, 16).sum(0)
    start, largest = 1000 * np.arange(16), (-x).max()
    return np.concatenate([start + sums, [largest], start + np.roll(sums, 1), [x.max()]])


MULTICAST = Kernel(
    name="bulk_multicast_to_cluster",
    family="bulk copies",
    source=WORDS
    + """
__device__ inline void bulk_share(void* to, const void* from, unsigned bytes, u64* b, unsigned short blocks) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], %2, [%3], %4;"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(b)), "h"(blocks) : "memory");
}
extern "C" __global__ void __cluster_dims__(4) k(const int* x, int* y) {
    __shared__ alignas(128) int s[4][64];
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block();
    if (t == 0) { bar_init(&bar, 1); init_fence(); bar_expect(&bar, rank & 1 ? 1024 : 512); }
    cluster_sync();
    if (t == 0) bulk_share(s[rank], x + 64 * blockIdx.x, 256, &bar, rank < 2 ? 15 : 10);
    bar_wait(&bar, 0);
    for (int i = t; i < (rank & 1 ? 256 : 128); i += 64) y[256 * blockIdx.x + i] = (&s[0][0])[i] + rank;
    cluster_sync();
}
""",
    make=draw(x=np.arange(256, dtype=I32), y=np.zeros(1024, dtype=I32)),
    expect=lambda m: {
        "y": np.concatenate(
            [np.where(np.arange(256) < (256 if r & 1 else 128), m["x"] + r, 0) for r in range(4)]
        )
    },
    arguments=("x", "y"),
    grid=(4, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

KERNELS = (STORES, REDUCTIONS, MULTICAST)
