"""Kernels for sm_90: mbarriers and bulk copies, alone and in pipelines."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import F32, I32, Empty, Kernel, draw, i32, normal, wide
from ptxsan_corpus.hopper_words import WORDS

ARCH = "sm_90a"

PHASES = Kernel(
    name="mbarrier_phases",
    family="mbarriers",
    source=WORDS
    + """
extern "C" __global__ void k(const float* x, float* y, int rounds) {
    __shared__ float s[64];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) bar_init(&bar, 64);
    __syncthreads();
    float v = x[t];
    for (int i = 0; i < rounds; ++i) {
        s[t] = v;
        u64 state = bar_arrive(&bar);
        while (!bar_test(&bar, state)) { }
        v = s[(t + 1) & 63] + 1;
        bar_arrive(&bar);
        bar_wait(&bar, 1);
    }
    y[t] = v;
    __syncthreads();
    if (t == 0) bar_inval(&bar);
}
""",
    make=draw(x=normal(64), y=Empty(dtype=F32, size=64)),
    expect=lambda m: {"y": np.roll(wide(m["x"]), -5) + 5},
    arguments=("x", "y", i32(5)),
    block=(64, 1, 1),
    arch=ARCH,
)

LIBRARY = Kernel(
    name="cuda_barrier_memcpy_async",
    family="bulk copies",
    source="""
#include <cuda/barrier>
#include <cuda/ptx>
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(128) float buf[64];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(buf, x + 64 * blockIdx.x, cuda::aligned_size_t<16>(sizeof(buf)), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 0);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    y[64 * blockIdx.x + threadIdx.x] = buf[63 - threadIdx.x];
}
""",
    make=draw(x=normal(128), y=Empty(dtype=F32, size=128)),
    expect=lambda m: {"y": wide(m["x"]).reshape(2, 64)[:, ::-1].reshape(-1)},
    arguments=("x", "y"),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

DOUBLE = Kernel(
    name="bulk_double_buffer",
    family="bulk copies",
    source=WORDS
    + """
extern "C" __global__ void k(const float* x, float* y, int tiles) {
    __shared__ alignas(128) float s[2][128];
    __shared__ u64 full[2];
    int t = threadIdx.x;
    if (t == 0) {
        bar_init(full, 1);
        bar_init(full + 1, 1);
        init_fence();
    }
    __syncthreads();
    if (t == 0)
        for (int i = 0; i < 2 && i < tiles; ++i) {
            bar_expect(full + i, 512);
            bulk_load(s[i], x + 128 * i, 512, full + i);
        }
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        bar_wait(full + (i & 1), (i >> 1) & 1);
        sum += s[i & 1][127 - t];
        __syncthreads();
        if (t == 0 && i + 2 < tiles) {
            bar_expect(full + (i & 1), 512);
            bulk_load(s[i & 1], x + 128 * (i + 2), 512, full + (i & 1));
        }
    }
    y[t] = sum;
}
""",
    make=draw(x=normal(5 * 128), y=Empty(dtype=F32, size=128)),
    expect=lambda m: {"y": wide(m["x"]).reshape(5, 128).sum(0)[::-1]},
    arguments=("x", "y", i32(5)),
    block=(128, 1, 1),
    arch=ARCH,
)

SPECIALISED = Kernel(
    name="warp_specialised_pipeline",
    family="bulk copies",
    source=WORDS
    + """
extern "C" __global__ void k(const float* x, float* y, int tiles) {
    __shared__ alignas(128) float s[3][128];
    __shared__ u64 full[3], empty[3];
    int t = threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < 3; ++i) { bar_init(full + i, 1); bar_init(empty + i, 64); }
        init_fence();
    }
    __syncthreads();
    if (t >= 64) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 64)
            for (int i = 0; i < tiles; ++i) {
                int stage = i % 3, phase = i / 3 & 1;
                bar_wait(empty + stage, phase ^ 1);
                bar_expect(full + stage, 512);
                bulk_load(s[stage], x + 128 * i, 512, full + stage);
            }
        return;
    }
    float a = 0, b = 0;
    for (int i = 0; i < tiles; ++i) {
        int stage = i % 3, phase = i / 3 & 1;
        bar_wait(full + stage, phase);
        a += s[stage][t];
        b += s[stage][127 - t];
        bar_arrive(empty + stage);
    }
    y[t] = a - b;
}
""",
    make=draw(x=normal(8 * 128), y=Empty(dtype=F32, size=64)),
    expect=lambda m: {
        "y": wide(m["x"]).reshape(8, 128).sum(0)[:64] - wide(m["x"]).reshape(8, 128).sum(0)[:63:-1]
    },
    arguments=("x", "y", i32(8)),
    block=(96, 1, 1),
    arch=ARCH,
)

STORES = Kernel(
    name="bulk_stores_two_buffers",
    family="bulk copies",
    source=WORDS
    + """
extern "C" __global__ void k(const float* x, float* y, int tiles) {
    __shared__ alignas(128) float s[2][64];
    int t = threadIdx.x;
    for (int i = 0; i < tiles; ++i) {
        if (t == 0) bulk_wait_read<1>();
        __syncthreads();
        s[i & 1][t] = 2 * x[i * 64 + t];
        proxy_fence();
        __syncthreads();
        if (t == 0) {
            bulk_store(y + i * 64, s[i & 1], 256);
            bulk_commit();
        }
    }
    if (t == 0) bulk_wait_read<0>();
}
""",
    make=draw(x=normal(320), y=Empty(dtype=F32, size=320)),
    expect=lambda m: {"y": 2 * wide(m["x"])},
    arguments=("x", "y", i32(5)),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

REDUCE = Kernel(
    name="bulk_reduce_add",
    family="bulk copies",
    source=WORDS
    + """
extern "C" __global__ void k(const int* x, int* y) {
    __shared__ alignas(128) int s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;"
                     :: "l"(y), "r"(at(s)), "r"(256) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}
""",
    make=draw(
        x=lambda rng: rng.integers(-(2**30), 2**30, 256).astype(I32), y=np.arange(64, dtype=I32)
    ),
    expect=lambda m: {"y": m["y"] + m["x"].reshape(4, 64).sum(0, dtype=I32)},
    arguments=("x", "y"),
    grid=(4, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

GATHER = Kernel(
    name="cp_async_arrives_at_mbarrier",
    family="mbarriers",
    source=WORDS
    + """
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float s[256];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) bar_init(&bar, 64);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(at(s + 4 * t)), "l"(x + 4 * t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&bar)) : "memory");
    bar_wait(&bar, 0);
    for (int i = t; i < 256; i += 64) y[i] = s[255 - i];
}
""",
    make=draw(x=normal(256), y=Empty(dtype=F32, size=256)),
    expect=lambda m: {"y": wide(m["x"])[::-1]},
    arguments=("x", "y"),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)

KERNELS = (PHASES, LIBRARY, DOUBLE, SPECIALISED, STORES, REDUCE, GATHER)
