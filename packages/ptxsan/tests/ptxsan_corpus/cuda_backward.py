"""Losses and backward passes of norms: several sums of one row."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import (
    F32,
    Arrays,
    Empty,
    Kernel,
    draw,
    f32,
    i32,
    normal,
    wide,
)
from ptxsan_corpus.cuda_reductions import BLOCK_SUM, WARP_SUM


def _cross_entropy(m: Arrays) -> Arrays:
    x, ids = wide(m["x"]).reshape(6, 200), m["ids"]
    top = x.max(1)
    return {"y": np.log(np.exp(x - top[:, None]).sum(1)) + top - x[np.arange(6), ids]}


CROSS_ENTROPY = Kernel(
    name="cross_entropy_online",
    family="loss",
    source="""
extern "C" __global__ void k(const float* in, const int* ids, float* y, int n) {
    const float* x = in + blockIdx.x * n;
    float m = -INFINITY, s = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[i], top = fmaxf(m, v);
        s = s * __expf(m - top) + __expf(v - top);
        m = top;
    }
    for (int d = 16; d > 0; d >>= 1) {
        float m2 = __shfl_xor_sync(0xffffffffu, m, d), s2 = __shfl_xor_sync(0xffffffffu, s, d);
        float top = fmaxf(m, m2);
        s = s * __expf(m - top) + s2 * __expf(m2 - top);
        m = top;
    }
    if (threadIdx.x == 0) y[blockIdx.x] = logf(s) + m - x[ids[blockIdx.x]];
}
""",
    make=draw(
        x=normal(1200),
        ids=lambda rng: rng.integers(0, 200, 6).astype(np.int32),
        y=Empty(dtype=F32, size=6),
    ),
    expect=_cross_entropy,
    arguments=("x", "ids", "y", i32(200)),
    grid=(6, 1, 1),
    tolerance=1e-4,
)


def _rms_backward(m: Arrays) -> Arrays:
    x, g, w = wide(m["x"]).reshape(6, 256), wide(m["g"]).reshape(6, 256), wide(m["w"])
    r = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    h = g * w
    dx = r * h - x * r**3 * (h * x).mean(1, keepdims=True)
    return {"dx": dx.reshape(-1), "dw": (g * x * r).sum(0)}


RMS_BACKWARD = Kernel(
    name="rmsnorm_backward",
    family="norm backward",
    source=BLOCK_SUM
    + """
extern "C" __global__ void k(const float* xs, const float* gs, const float* w, float* dxs,
                             float* dw, int n, float eps) {
    const float *x = xs + blockIdx.x * n, *g = gs + blockIdx.x * n;
    float* dx = dxs + blockIdx.x * n;
    float q = 0, p = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) q += x[i] * x[i];
    float r = rsqrtf(block_sum(q) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) p += g[i] * w[i] * x[i];
    __syncthreads();
    float c = block_sum(p) / n * r * r * r;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dx[i] = r * g[i] * w[i] - c * x[i];
        atomicAdd(dw + i, g[i] * x[i] * r);
    }
}
""",
    make=draw(
        x=normal(1536),
        g=normal(1536),
        w=normal(256),
        dx=Empty(dtype=F32, size=1536),
        dw=np.zeros(256, dtype=np.float32),
    ),
    expect=_rms_backward,
    arguments=("x", "g", "w", "dx", "dw", i32(256), f32(1e-6)),
    grid=(6, 1, 1),
    block=(64, 1, 1),
    tolerance=1e-4,
)


def _layer_backward(m: Arrays) -> Arrays:
    x, g = wide(m["x"]).reshape(4, 160), wide(m["g"]).reshape(4, 160)
    r = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = (x - x.mean(1, keepdims=True)) * r
    dx = r * (g - g.mean(1, keepdims=True) - h * (g * h).mean(1, keepdims=True))
    return {"dx": dx.reshape(-1)}


LAYER_BACKWARD = Kernel(
    name="layernorm_backward",
    family="norm backward",
    source=WARP_SUM
    + """
extern "C" __global__ void k(const float* xs, const float* gs, float* dxs, int n) {
    const float *x = xs + blockIdx.x * n, *g = gs + blockIdx.x * n;
    float s = 0, q = 0, a = 0, b = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[i];
    float mean = warp_sum(s) / n;
    for (int i = threadIdx.x; i < n; i += 32) q += (x[i] - mean) * (x[i] - mean);
    float r = rsqrtf(warp_sum(q) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 32) { a += g[i]; b += g[i] * (x[i] - mean) * r; }
    a = warp_sum(a) / n;
    b = warp_sum(b) / n;
    for (int i = threadIdx.x; i < n; i += 32)
        dxs[blockIdx.x * n + i] = r * (g[i] - a - (x[i] - mean) * r * b);
}
""",
    make=draw(x=normal(640), g=normal(640), dx=Empty(dtype=F32, size=640)),
    expect=_layer_backward,
    arguments=("x", "g", "dx", i32(160)),
    grid=(4, 1, 1),
    tolerance=1e-4,
)

KERNELS = (
    CROSS_ENTROPY,
    RMS_BACKWARD,
    LAYER_BACKWARD,
)
