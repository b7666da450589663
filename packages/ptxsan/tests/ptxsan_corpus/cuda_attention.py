"""Split-K, transposes, attention forward and backward, grouped products."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import (
    F32,
    Array,
    Arrays,
    Empty,
    Kernel,
    draw,
    i32,
    normal,
    wide,
)
from ptxsan_corpus.cuda_matrix import product

SPLIT_K = Kernel(
    name="split_k_last_block",
    family="split-K",
    source="""
extern "C" __global__ void k(const float* a, const float* b, float* part, unsigned* ticket,
                             float* c, int kk) {
    __shared__ bool last;
    int t = threadIdx.x, row = t / 16, col = t % 16, z = blockIdx.x, splits = gridDim.x;
    int from = z * kk / splits, to = (z + 1) * kk / splits;
    float s = 0;
    for (int i = from; i < to; ++i) s += a[row * kk + i] * b[i * 16 + col];
    part[z * 256 + t] = s;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(ticket, 1u) == splits - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    float v = 0;
    for (int p = 0; p < splits; ++p) v += ((volatile float*)part)[p * 256 + t];
    c[t] = v;
}
""",
    make=draw(
        a=normal(16 * 50),
        b=normal(50 * 16),
        part=Empty(dtype=F32, size=1024),
        ticket=np.zeros(1, dtype=np.uint32),
        c=Empty(dtype=F32, size=256),
    ),
    expect=product(16, 16, 50),
    arguments=("a", "b", "part", "ticket", "c", i32(50)),
    grid=(4, 1, 1),
    block=(256, 1, 1),
)

TRANSPOSE_SOURCE = """
extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r + i < rows && c < cols) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * cols + c];
    __syncthreads();
    int c2 = blockIdx.y * 32 + threadIdx.x, r2 = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (r2 + i < cols && c2 < rows) y[(r2 + i) * rows + c2] = tile[threadIdx.x][threadIdx.y + i];
}
"""
TRANSPOSE = Kernel(
    name="transpose_tiles",
    family="transpose",
    source=TRANSPOSE_SOURCE,
    make=draw(x=normal(70 * 45), y=Empty(dtype=F32, size=70 * 45)),
    expect=lambda m: {"y": wide(m["x"]).reshape(70, 45).T.reshape(-1)},
    arguments=("x", "y", i32(70), i32(45)),
    grid=(2, 3, 1),
    block=(32, 8, 1),
    tolerance=0.0,
)


def attention(m: Arrays, rows: int, keys: int, d: int) -> Array:
    """Return softmax(q k / sqrt(d)) v."""
    q, k, v = (wide(m[name]).reshape(-1, d) for name in "qkv")
    s = q @ k.T / np.sqrt(d)
    p = np.exp(s - s.max(1, keepdims=True))
    return np.asarray((p / p.sum(1, keepdims=True)) @ v)


ATTENTION = Kernel(
    name="attention_online_softmax",
    family="attention",
    source="""
extern "C" __global__ void k(const float* q, const float* kk, const float* v, float* o, int keys) {
    __shared__ float ks[8][32];
    __shared__ float vs[8][32];
    int lane = threadIdx.x, row = blockIdx.x * 4 + threadIdx.y;
    float mine = q[row * 32 + lane], m = -INFINITY, l = 0, acc = 0;
    for (int k0 = 0; k0 < keys; k0 += 8) {
        for (int i = threadIdx.y; i < 8; i += 4) {
            ks[i][lane] = k0 + i < keys ? kk[(k0 + i) * 32 + lane] : 0.0f;
            vs[i][lane] = k0 + i < keys ? v[(k0 + i) * 32 + lane] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 8 && k0 + i < keys; ++i) {
            float s = mine * ks[i][lane];
            for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
            s *= 0.17677669f;
            float top = fmaxf(m, s), scale = __expf(m - top), p = __expf(s - top);
            l = l * scale + p;
            acc = acc * scale + p * vs[i][lane];
            m = top;
        }
        __syncthreads();
    }
    o[row * 32 + lane] = acc / l;
}
""",
    make=draw(q=normal(8 * 32), k=normal(21 * 32), v=normal(21 * 32), o=Empty(dtype=F32, size=256)),
    expect=lambda m: {"o": attention(m, 8, 21, 32).reshape(-1)},
    arguments=("q", "k", "v", "o", i32(21)),
    grid=(2, 1, 1),
    block=(32, 4, 1),
    tolerance=1e-4,
)


def _attention_backward(m: Arrays) -> Arrays:
    q, k, v, g = (wide(m[name]).reshape(-1, 16) for name in "qkvg")
    s = q @ k.T / 4
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dp = g @ v.T
    ds = p * (dp - (dp * p).sum(1, keepdims=True)) / 4
    return {"dq": (ds @ k).reshape(-1), "dk": (ds.T @ q).reshape(-1), "dv": (p.T @ g).reshape(-1)}


ATTENTION_BACKWARD = Kernel(
    name="attention_backward_atomics",
    family="attention backward",
    source="""
extern "C" __global__ void k(const float* q, const float* kk, const float* v, const float* g,
                             float* dq, float* dk, float* dv, int keys) {
    __shared__ float p[32], dp[32];
    int row = blockIdx.x, j = threadIdx.x;
    float s = -INFINITY, e = 0;
    if (j < keys) {
        s = 0;
        for (int d = 0; d < 16; ++d) {
            s += q[row * 16 + d] * kk[j * 16 + d] * 0.25f;
            e += g[row * 16 + d] * v[j * 16 + d];
        }
    }
    float m = s;
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    float w = __expf(s - m), z = w;
    for (int d = 16; d > 0; d >>= 1) z += __shfl_xor_sync(0xffffffffu, z, d);
    w /= z;
    float c = w * e;
    for (int d = 16; d > 0; d >>= 1) c += __shfl_xor_sync(0xffffffffu, c, d);
    p[j] = w;
    dp[j] = w * (e - c) * 0.25f;
    __syncwarp();
    if (j < keys)
        for (int d = 0; d < 16; ++d) {
            atomicAdd(dv + j * 16 + d, p[j] * g[row * 16 + d]);
            atomicAdd(dk + j * 16 + d, dp[j] * q[row * 16 + d]);
        }
    if (j < 16) {
        float t = 0;
        for (int i = 0; i < keys; ++i) t += dp[i] * kk[i * 16 + j];
        dq[row * 16 + j] = t;
    }
}
""",
    make=draw(
        q=normal(80),
        k=normal(13 * 16),
        v=normal(13 * 16),
        g=normal(80),
        dq=Empty(dtype=F32, size=80),
        dk=np.zeros(208, dtype=np.float32),
        dv=np.zeros(208, dtype=np.float32),
    ),
    expect=_attention_backward,
    arguments=("q", "k", "v", "g", "dq", "dk", "dv", i32(13)),
    grid=(5, 1, 1),
    tolerance=1e-4,
)


def _grouped(m: Arrays) -> Arrays:
    starts, x, w = m["starts"], wide(m["x"]).reshape(-1, 24), wide(m["w"]).reshape(3, 24, 16)
    rows = [x[starts[e] : starts[e + 1]] @ w[e] for e in range(3)]
    return {"y": np.concatenate(rows).reshape(-1)}


GROUPED = Kernel(
    name="grouped_gemm_ragged",
    family="grouped gemm",
    source="""
extern "C" __global__ void k(const float* x, const float* w, const int* starts, float* y) {
    __shared__ float tile[8][24];
    int expert = blockIdx.y, first = starts[expert], last = starts[expert + 1];
    for (int r0 = first + 8 * blockIdx.x; r0 < last; r0 += 8 * gridDim.x) {
        int row = r0 + threadIdx.y;
        for (int i = threadIdx.x; i < 24; i += 16)
            tile[threadIdx.y][i] = row < last ? x[row * 24 + i] : 0.0f;
        __syncthreads();
        float s = 0;
        for (int i = 0; i < 24; ++i) s += tile[threadIdx.y][i] * w[(expert * 24 + i) * 16 + threadIdx.x];
        if (row < last) y[row * 16 + threadIdx.x] = s;
        __syncthreads();
    }
}
""",
    make=draw(
        x=normal(37 * 24),
        w=normal(3 * 24 * 16),
        starts=np.array([0, 19, 19, 37], dtype=np.int32),
        y=Empty(dtype=F32, size=37 * 16),
    ),
    expect=_grouped,
    arguments=("x", "w", "starts", "y"),
    grid=(2, 3, 1),
    block=(16, 8, 1),
)

KERNELS = (
    SPLIT_K,
    TRANSPOSE,
    ATTENTION,
    ATTENTION_BACKWARD,
    GROUPED,
)
