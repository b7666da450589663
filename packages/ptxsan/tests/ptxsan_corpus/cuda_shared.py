"""Threads that work together: scans, histograms, atomics, gathers, barriers of every kind."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import (
    BF16,
    F32,
    F64,
    I32,
    Arrays,
    Empty,
    Kernel,
    draw,
    i32,
    normal,
    wide,
)


def _ids(rows: int, count: int) -> object:
    return lambda rng: rng.integers(0, rows, count).astype(np.int32)


def _embedding_grad(m: Arrays) -> Arrays:
    out = np.zeros((12, 64))
    np.add.at(out, m["ids"], wide(m["g"]).reshape(-1, 64))
    return {"w": out.reshape(-1)}


EMBEDDING_SOURCE = """
extern "C" __global__ void k(const T* g, const int* ids, ACC* w, int tokens) {
    int t = blockIdx.x, d = threadIdx.x;
    if (t < tokens) atomicAdd(w + ids[t] * 64 + d, (ACC)g[t * 64 + d]);
}
"""


def embedding(type_: str, acc: str, dtype: np.dtype, acc_dtype: np.dtype) -> Kernel:
    """Return the gradient of an embedding: rows added by atomics into `acc`."""
    return Kernel(
        name=f"embedding_grad_{dtype.name}_into_{acc_dtype.name}",
        family="embedding grad",
        source=EMBEDDING_SOURCE.replace("T*", f"{type_}*").replace("ACC", acc),
        make=draw(
            g=normal(40 * 64, dtype=dtype),
            ids=_ids(12, 40),
            w=np.zeros(12 * 64, dtype=acc_dtype),
        ),
        expect=_embedding_grad,
        arguments=("g", "ids", "w", i32(40)),
        grid=(41, 1, 1),
        block=(64, 1, 1),
        tolerance=1e-5 if acc_dtype.itemsize >= 4 else 3e-2,
    )


SCAN_SHARED = Kernel(
    name="block_scan_hillis_steele",
    family="scan",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float a[2][256];
    int t = threadIdx.x, i = blockIdx.x * n + t, now = 0;
    a[0][t] = t < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        a[1 - now][t] = a[now][t] + (t >= d ? a[now][t - d] : 0.0f);
        now = 1 - now;
        __syncthreads();
    }
    if (t < n) y[i] = a[now][t];
}
""",
    make=draw(x=normal(600), y=Empty(dtype=F32, size=600)),
    expect=lambda m: {"y": np.cumsum(wide(m["x"]).reshape(3, 200), axis=1).reshape(-1)},
    arguments=("x", "y", i32(200)),
    grid=(3, 1, 1),
    block=(256, 1, 1),
)

SCAN_SHUFFLE = Kernel(
    name="warp_scan_shuffle",
    family="scan",
    source="""
extern "C" __global__ void k(const int* x, int* y, int n) {
    __shared__ int sums[4];
    int t = threadIdx.x, lane = t & 31, v = t < n ? x[t] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        int u = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) sums[t >> 5] = v;
    __syncthreads();
    for (int w = 0; w < (t >> 5); ++w) v += sums[w];
    if (t < n) y[t] = v;
}
""",
    make=draw(
        x=lambda rng: rng.integers(-9, 9, 120).astype(np.int32), y=Empty(dtype=I32, size=120)
    ),
    expect=lambda m: {"y": np.cumsum(m["x"])},
    arguments=("x", "y", i32(120)),
    block=(128, 1, 1),
    tolerance=0.0,
)

LOOK_BACK = Kernel(
    name="scan_decoupled_look_back",
    family="scan",
    source="""
extern "C" __global__ void k(const int* x, int* y, unsigned* order, int* state, int* sum, int n) {
    __shared__ int tile, before;
    if (threadIdx.x == 0) tile = atomicAdd(order, 1u);
    __syncthreads();
    int lane = threadIdx.x, i = tile * 32 + lane, v = i < n ? x[i] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        int u = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += u;
    }
    int total = __shfl_sync(0xffffffffu, v, 31);
    if (lane == 0) {
        int p = 0;
        if (tile > 0) {
            while (atomicAdd(state + tile - 1, 0) == 0) { }
            __threadfence();
            p = __ldcg(sum + tile - 1);
        }
        before = p;
        sum[tile] = p + total;
        __threadfence();
        atomicExch(state + tile, 1);
    }
    __syncthreads();
    if (i < n) y[i] = v + before;
}
""",
    make=draw(
        x=lambda rng: rng.integers(-9, 9, 150).astype(np.int32),
        y=Empty(dtype=I32, size=150),
        order=np.zeros(1, dtype=np.uint32),
        state=np.zeros(5, dtype=np.int32),
        sum=Empty(dtype=I32, size=5),
    ),
    expect=lambda m: {"y": np.cumsum(m["x"])},
    arguments=("x", "y", "order", "state", "sum", i32(150)),
    grid=(5, 1, 1),
    tolerance=0.0,
)

HISTOGRAM = Kernel(
    name="histogram_shared_privatised",
    family="histogram",
    source="""
extern "C" __global__ void k(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned local[64];
    for (int b = threadIdx.x; b < 64; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(local + (x[i] & 63), 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 64; b += blockDim.x)
        if (local[b]) atomicAdd(bins + b, local[b]);
}
""",
    make=draw(
        x=lambda rng: rng.integers(0, 256, 2000).astype(np.uint8),
        bins=np.zeros(64, dtype=np.uint32),
    ),
    expect=lambda m: {"bins": np.bincount(m["x"] & 63, minlength=64)},
    arguments=("x", "bins", i32(2000)),
    grid=(3, 1, 1),
    block=(96, 1, 1),
    tolerance=0.0,
)

MIN_MAX = Kernel(
    name="atomics_min_max_and_or_xor",
    family="atomics",
    source="""
extern "C" __global__ void k(const int* x, int* y, unsigned long long* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicMin(y, x[i]);
    atomicMax(y + 1, x[i]);
    atomicAnd(y + 2, x[i]);
    atomicOr(y + 3, x[i]);
    atomicXor(y + 4, x[i]);
    atomicAdd(z, (unsigned long long)(x[i] & 255));
    atomicInc((unsigned*)y + 5, 1000u);
}
""",
    make=draw(
        x=lambda rng: rng.integers(-(2**30), 2**30, 100).astype(np.int32),
        y=np.array([2**30, -(2**30), -1, 0, 0, 0], dtype=np.int32),
        z=np.zeros(1, dtype=np.uint64),
    ),
    expect=lambda m: {
        "y": np.array(
            [
                m["x"].min(),
                m["x"].max(),
                np.bitwise_and.reduce(m["x"]),
                np.bitwise_or.reduce(m["x"]),
                np.bitwise_xor.reduce(m["x"]),
                100,
            ]
        ),
        "z": np.array([(m["x"] & 255).sum()]),
    },
    arguments=("x", "y", "z", i32(100)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

CAS_MAX = Kernel(
    name="cas_float_max",
    family="atomics",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* at = (int*)y;
    int old = atomicAdd(at, 0);
    while (x[i] > __int_as_float(old)) {
        int seen = atomicCAS(at, old, __float_as_int(x[i]));
        if (seen == old) break;
        old = seen;
    }
}
""",
    make=draw(x=normal(150), y=np.full(1, -1e30, dtype=np.float32)),
    expect=lambda m: {"y": wide(m["x"]).max().reshape(1)},
    arguments=("x", "y", i32(150)),
    grid=(3, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

GATHER = Kernel(
    name="gather_rows_int64_ids",
    family="gather",
    source="""
extern "C" __global__ void k(const float* w, const long long* ids, float* y, int d) {
    const float* row = w + ids[blockIdx.x] * d;
    for (int i = threadIdx.x; i < d; i += blockDim.x) y[blockIdx.x * d + i] = row[i];
}
""",
    make=draw(
        w=normal(11 * 50),
        ids=lambda rng: rng.integers(0, 11, 9).astype(np.int64),
        y=Empty(dtype=F32, size=450),
    ),
    expect=lambda m: {"y": wide(m["w"]).reshape(11, 50)[m["ids"]].reshape(-1)},
    arguments=("w", "ids", "y", i32(50)),
    grid=(9, 1, 1),
    tolerance=0.0,
)

SCATTER = Kernel(
    name="scatter_permutation",
    family="gather",
    source="""
extern "C" __global__ void k(const float* x, const int* to, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[to[i]] = x[i];
}
""",
    make=draw(
        x=normal(100),
        to=lambda rng: rng.permutation(100).astype(np.int32),
        y=Empty(dtype=F32, size=100),
    ),
    expect=lambda m: {"y": wide(m["x"])[np.argsort(m["to"])]},
    arguments=("x", "to", "y", i32(100)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

KERNELS = (
    embedding("float", "float", F32, F32),
    embedding("__nv_bfloat16", "float", BF16, F32),
    embedding("float", "double", F32, F64),
    SCAN_SHARED,
    SCAN_SHUFFLE,
    LOOK_BACK,
    HISTOGRAM,
    MIN_MAX,
    CAS_MAX,
    GATHER,
    SCATTER,
)
