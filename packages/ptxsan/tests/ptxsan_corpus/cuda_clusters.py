"""Kernels for sm_90: clusters, distributed shared memory, barriers in other blocks."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import F32, I32, Empty, Kernel, draw, i32, normal, wide
from ptxsan_corpus.hopper_words import WORDS

ARCH = "sm_90a"

SUM = Kernel(
    name="cluster_sum",
    family="clusters",
    source=WORDS
    + """
extern "C" __global__ void __cluster_dims__(4) k(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ float part;
    int t = threadIdx.x, rank = rank_of_block();
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t == 0) {
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += s[i];
        part = sum;
    }
    cluster_sync();
    if (rank == 0 && t < 32) {
        float v = t < 4 ? remote_load(&part, t) : 0.0f;
        for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
        if (t == 0) y[blockIdx.x / 4] = v;
    }
    cluster_sync();
}
""",
    make=draw(x=normal(512), y=Empty(dtype=F32, size=2)),
    expect=lambda m: {"y": wide(m["x"]).reshape(2, 256).sum(1)},
    arguments=("x", "y"),
    grid=(8, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
)

HISTOGRAM = Kernel(
    name="cluster_histogram",
    family="clusters",
    source=WORDS
    + """
extern "C" __global__ void __cluster_dims__(2) k(const int* x, int* y, int n) {
    __shared__ int bins[32];
    int t = threadIdx.x, rank = rank_of_block();
    if (t < 32) bins[t] = 0;
    cluster_sync();
    for (int i = blockIdx.x * 64 + t; i < n; i += 128) {
        int b = x[i] & 63;
        asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(remote(bins + (b & 31), b >> 5)) : "memory");
    }
    cluster_sync();
    if (t < 32) y[rank * 32 + t] = bins[t];
}
""",
    make=draw(x=lambda rng: rng.integers(0, 64, 700).astype(I32), y=Empty(dtype=I32, size=64)),
    expect=lambda m: {"y": np.bincount(m["x"], minlength=64)},
    arguments=("x", "y", i32(700)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

RING = Kernel(
    name="cluster_ring_remote_arrive",
    family="clusters",
    source=WORDS
    + """
extern "C" __global__ void __cluster_dims__(4) k(const float* x, float* y) {
    __shared__ float box[32];
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block();
    if (t == 0) { bar_init(&bar, 32); init_fence(); }
    cluster_sync();
    unsigned next = (rank + 1) & 3;
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(remote(box + t, next)), "f"(x[32 * blockIdx.x + t]) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote(&bar, next)) : "memory");
    bar_wait(&bar, 0);
    y[32 * blockIdx.x + t] = box[31 - t];
    cluster_sync();
}
""",
    make=draw(x=normal(128), y=Empty(dtype=F32, size=128)),
    expect=lambda m: {"y": np.roll(wide(m["x"]).reshape(4, 32), 1, axis=0)[:, ::-1].reshape(-1)},
    arguments=("x", "y"),
    grid=(4, 1, 1),
    block=(32, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

ACROSS = Kernel(
    name="cluster_bulk_copy_across",
    family="clusters",
    source=WORDS
    + """
extern "C" __global__ void __cluster_dims__(2) k(const float* x, float* y) {
    __shared__ alignas(128) float mine[64];
    __shared__ alignas(128) float theirs[64];
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block();
    if (t == 0) { bar_init(&bar, 1); init_fence(); bar_expect(&bar, 256); }
    mine[t] = x[64 * blockIdx.x + t];
    proxy_fence();
    cluster_sync();
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(remote(theirs, rank ^ 1)), "r"(at(mine)), "r"(256), "r"(remote(&bar, rank ^ 1)) : "memory");
    bar_wait(&bar, 0);
    y[64 * blockIdx.x + t] = theirs[63 - t];
    cluster_sync();
}
""",
    make=draw(x=normal(128), y=Empty(dtype=F32, size=128)),
    expect=lambda m: {"y": wide(m["x"]).reshape(2, 64)[::-1, ::-1].reshape(-1)},
    arguments=("x", "y"),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

KERNELS = (SUM, HISTOGRAM, RING, ACROSS)
