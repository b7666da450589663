"""Threads that wait for each other: barriers of every kind, exits, dynamic shared memory."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import (
    F32,
    Empty,
    Kernel,
    draw,
    i32,
    normal,
    wide,
)

PRODUCER = Kernel(
    name="producer_consumer_named_barriers",
    family="barriers",
    source="""
extern "C" __global__ void k(const float* x, float* y, int tiles) {
    __shared__ float buf[2][32];
    int lane = threadIdx.x & 31;
    if (threadIdx.x < 32) {
        for (int i = 0; i < tiles; ++i) {
            if (i >= 2) asm volatile("bar.sync %0, 64;" :: "r"(3 + (i & 1)) : "memory");
            buf[i & 1][lane] = x[i * 32 + lane];
            asm volatile("bar.arrive %0, 64;" :: "r"(1 + (i & 1)) : "memory");
        }
    } else {
        for (int i = 0; i < tiles; ++i) {
            asm volatile("bar.sync %0, 64;" :: "r"(1 + (i & 1)) : "memory");
            y[i * 32 + lane] = 2 * buf[i & 1][31 - lane];
            if (i + 2 < tiles) asm volatile("bar.arrive %0, 64;" :: "r"(3 + (i & 1)) : "memory");
        }
    }
}
""",
    make=draw(x=normal(160), y=Empty(dtype=F32, size=160)),
    expect=lambda m: {"y": 2 * wide(m["x"]).reshape(5, 32)[:, ::-1].reshape(-1)},
    arguments=("x", "y", i32(5)),
    block=(64, 1, 1),
    tolerance=0.0,
)

GRID_BARRIER = Kernel(
    name="grid_barrier_by_counter",
    family="barriers",
    source="""
extern "C" __global__ void k(const float* x, float* t, float* y, unsigned* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    t[i] = x[i] + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
    y[i] = ((volatile float*)t)[n - 1 - i];
}
""",
    make=draw(
        x=normal(128),
        t=Empty(dtype=F32, size=128),
        y=Empty(dtype=F32, size=128),
        count=np.zeros(1, dtype=np.uint32),
    ),
    expect=lambda m: {"y": wide(m["x"] + np.float32(1))[::-1]},
    arguments=("x", "t", "y", "count"),
    grid=(4, 1, 1),
    tolerance=0.0,
)

EARLY_EXIT = Kernel(
    name="early_exit_before_barrier",
    family="barriers",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float part[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    part[threadIdx.x] = x[i];
    __syncthreads();
    int left = threadIdx.x ? threadIdx.x - 1 : 0;
    y[i] = x[i] + part[left];
}
""",
    make=draw(x=normal(100), y=Empty(dtype=F32, size=100)),
    expect=lambda m: {
        "y": wide(m["x"]) + wide(m["x"])[[i - 1 if i % 64 else i for i in range(100)]]
    },
    arguments=("x", "y", i32(100)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
)

STENCIL = Kernel(
    name="stencil_with_halo",
    family="shared",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[66];
    int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x + 1;
    s[t] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) s[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == 63) s[65] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[t - 1] - 2 * s[t] + s[t + 1];
}
""",
    make=draw(x=normal(150), y=Empty(dtype=F32, size=150)),
    expect=lambda m: {"y": np.convolve(np.pad(wide(m["x"]), 1), [1, -2, 1], mode="valid")},
    arguments=("x", "y", i32(150)),
    grid=(3, 1, 1),
    block=(64, 1, 1),
)

DYNAMIC_SHARED = Kernel(
    name="dynamic_shared_two_arrays",
    family="shared",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    extern __shared__ float mem[];
    float *a = mem, *b = mem + n;
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = x[n + t];
    __syncthreads();
    y[t] = a[n - 1 - t] * b[(t + 1) % n];
}
""",
    make=draw(x=normal(96), y=Empty(dtype=F32, size=48)),
    expect=lambda m: {"y": wide(m["x"])[:48][::-1] * np.roll(wide(m["x"])[48:], -1)},
    arguments=("x", "y", i32(48)),
    block=(48, 1, 1),
    shared_bytes=384,
)

TWO_ARRAYS = Kernel(
    name="two_shared_arrays",
    family="shared",
    source="""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float a[32];
    __shared__ float b[32];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = x[32 + t];
    __syncthreads();
    y[t] = a[31 - t] + 10 * b[t ^ 1];
}
""",
    make=draw(x=normal(64), y=Empty(dtype=F32, size=32)),
    expect=lambda m: {"y": wide(m["x"])[:32][::-1] + 10 * wide(m["x"])[32 + (np.arange(32) ^ 1)]},
    arguments=("x", "y"),
)

COUNTER = Kernel(
    name="device_variable_and_constant",
    family="memory spaces",
    source="""
__device__ float factors[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__constant__ int shift[2] = {3, 5};
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * factors[i & 3] + shift[i & 1];
}
""",
    make=draw(x=normal(100), y=Empty(dtype=F32, size=100)),
    expect=lambda m: {
        "y": wide(m["x"]) * 2.0 ** (np.arange(100) & 3) + np.where(np.arange(100) & 1, 5, 3)
    },
    arguments=("x", "y", i32(100)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
)

BITONIC = Kernel(
    name="bitonic_sort_shared",
    family="shared",
    source="""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int size = 2; size <= 128; size <<= 1)
        for (int d = size >> 1; d > 0; d >>= 1) {
            int other = t ^ d;
            if (other > t) {
                bool up = (t & size) == 0;
                float a = s[t], b = s[other];
                if ((a > b) == up) { s[t] = b; s[other] = a; }
            }
            __syncthreads();
        }
    y[blockIdx.x * 128 + t] = s[t];
}
""",
    make=draw(x=normal(256), y=Empty(dtype=F32, size=256)),
    expect=lambda m: {"y": np.sort(wide(m["x"]).reshape(2, 128), axis=1).reshape(-1)},
    arguments=("x", "y"),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    tolerance=0.0,
)

COMPACT = Kernel(
    name="ballot_compaction",
    family="warp",
    source="""
extern "C" __global__ void k(const float* x, float* y, unsigned* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] > 0;
    unsigned mask = __ballot_sync(0xffffffffu, keep);
    int lane = threadIdx.x & 31, base = 0;
    if (lane == 0) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (keep) y[base + __popc(mask & ((1u << lane) - 1))] = x[i];
}
""",
    make=draw(x=normal(64), y=np.zeros(64, dtype=np.float32), count=np.zeros(1, dtype=np.uint32)),
    expect=lambda m: {"count": np.array([(m["x"] > 0).sum()])},
    arguments=("x", "y", "count", i32(64)),
    block=(64, 1, 1),
    tolerance=0.0,
)

COOPERATIVE = Kernel(
    name="cooperative_groups_tile",
    family="warp",
    source="""
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    float v = x[threadIdx.x];
    for (int d = 4; d > 0; d >>= 1) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) y[threadIdx.x / 8] = v;
}
""",
    make=draw(x=normal(64), y=Empty(dtype=F32, size=8)),
    expect=lambda m: {"y": wide(m["x"]).reshape(8, 8).sum(1)},
    arguments=("x", "y"),
    block=(64, 1, 1),
)

WARP_BROADCAST = Kernel(
    name="warp_then_broadcast",
    family="shared",
    source="""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float part[2];
    __shared__ float extra[2];
    int t = threadIdx.x, lane = t & 31;
    float v = x[t];
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (lane == 0) { part[t >> 5] = v; extra[t >> 5] = -v; }
    __syncthreads();
    if (t < 2) y[t] = part[lane] + 2 * extra[1 - t];
}
""",
    make=draw(x=normal(64), y=Empty(dtype=F32, size=2)),
    expect=lambda m: {
        "y": wide(m["x"]).reshape(2, 32).sum(1) - 2 * wide(m["x"]).reshape(2, 32).sum(1)[::-1]
    },
    arguments=("x", "y"),
    block=(64, 1, 1),
)

SHARED_POINTER = Kernel(
    name="shared_pointer_through_memory",
    family="memory spaces",
    source="""
extern "C" __global__ void k(const float* x, unsigned long long* where, float* y) {
    __shared__ float a[32];
    a[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    if (threadIdx.x == 0) where[blockIdx.x] = (unsigned long long)(float*)a;
    __syncthreads();
    const float* p = (const float*)((volatile unsigned long long*)where)[blockIdx.x];
    y[blockIdx.x * 32 + threadIdx.x] = p[31 - threadIdx.x];
}
""",
    make=draw(x=normal(64), where=np.zeros(2, dtype=np.uint64), y=Empty(dtype=F32, size=64)),
    expect=lambda m: {"y": wide(m["x"]).reshape(2, 32)[:, ::-1].reshape(-1)},
    arguments=("x", "where", "y"),
    grid=(2, 1, 1),
)

LOCAL_POINTER = Kernel(
    name="local_pointer_through_shared",
    family="memory spaces",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ unsigned long long p[32];
    float mine[4];
#pragma unroll 1
    for (int i = 0; i < 4; ++i) mine[i] = x[(threadIdx.x + i) % n];
    p[threadIdx.x] = (unsigned long long)(float*)mine;
    __syncwarp();
    const volatile float* q = (const volatile float*)((volatile unsigned long long*)p)[threadIdx.x];
    y[threadIdx.x] = q[n & 3];
}
""",
    make=draw(x=normal(34), y=Empty(dtype=F32, size=32)),
    expect=lambda m: {"y": wide(m["x"])[2:34]},
    arguments=("x", "y", i32(34)),
)

KERNELS = (
    PRODUCER,
    GRID_BARRIER,
    EARLY_EXIT,
    STENCIL,
    DYNAMIC_SHARED,
    TWO_ARRAYS,
    COUNTER,
    BITONIC,
    COMPACT,
    COOPERATIVE,
    WARP_BROADCAST,
    SHARED_POINTER,
    LOCAL_POINTER,
)
