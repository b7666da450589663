"""Operators over rows, in forms that are one expression: softmax, RMSNorm, layer norm."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.algebra_family import WARP, Family, Form, Slip, Step, one
from ptxsan_corpus.case import F32, Empty, draw, i32, normal

_N = 70
_ROWS = ("x", "y", i32(_N))
SOFTMAX = Family(
    name="softmax",
    source=WARP + """
extern "C" __global__ void two_pass(const float* x, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float m = -INF, s = 0;
    for (int i = threadIdx.x; i < n; i += 32) m = fmaxf(m, x[i]);
    m = warp_max(m);
    for (int i = threadIdx.x; i < n; i += 32) s += expf(x[i] - m);
    s = warp_sum(s);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = expf(x[i] - m) / s;
}
extern "C" __global__ void online(const float* x, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float m = -INF, s = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float k = fmaxf(m, x[i]);
        s = s * __expf(m - k) + __expf(x[i] - k);
        m = k;
    }
    for (int o = 16; o; o >>= 1) {
        float m2 = __shfl_xor_sync(~0u, m, o), s2 = __shfl_xor_sync(~0u, s, o), k = fmaxf(m, m2);
        s = s * __expf(m - k) + s2 * __expf(m2 - k);
        m = k;
    }
    for (int i = threadIdx.x; i < n; i += 32) y[i] = __expf(x[i] - m) * (1.0f / s);
}
extern "C" __global__ void block_tree(const float* x, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0, m = x[0];
    for (int i = 1; i < n; i++) m = fmaxf(m, x[i]);
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += exp2f((x[i] - m) * 1.44269504f);
    s = block_sum(s);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = exp2f((x[i] - m) * 1.44269504f) / s;
}
extern "C" __global__ void no_maximum(const float* x, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += expf(x[i]);
    s = warp_sum(s);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = expf(x[i]) / s;
}
""",
    make=draw(x=normal(3, _N), y=Empty(dtype=F32, size=3 * _N)),
    outputs={"y": "f32"},
    forms=(
        one("two_pass", *_ROWS, grid=3),
        one("online", *_ROWS, grid=3),
        one("block_tree", *_ROWS, grid=3, block=64),
        one("no_maximum", *_ROWS, grid=3),
    ),
    faults=(
        Slip("no_rescale", "online", "s = s * __expf(m - k) + __expf(x[i] - k)", "s += __expf(x[i] - k)"),
        Slip("merge_without_rescale", "online", "+ s2 * __expf(m2 - k)", "+ s2"),
        Slip("seventh_digit_of_log2e", "block_tree", "1.44269504f", "1.44269550f"),
        Slip("last_term_dropped", "block_tree", "i < n; i += blockDim.x) s", "i < n - 1; i += blockDim.x) s"),
        Slip("epsilon_added", "no_maximum", "expf(x[i]) / s", "expf(x[i]) / (s + 1e-6f)"),
        Slip("sum_of_one_lane", "no_maximum", "s = warp_sum(s)", "s = __shfl_sync(~0u, s, 0)"),
    ),
)  # fmt: skip
_NORM = ("x", "w", "y", i32(_N))
RMSNORM = Family(
    name="rmsnorm",
    source=WARP + """
extern "C" __global__ void warp_rows(const float* x, const float* w, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[i] * x[i];
    float r = rsqrtf(warp_sum(s) / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = x[i] * r * w[i];
}
extern "C" __global__ void block_rows(const float* x, const float* w, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s = fmaf(x[i], x[i], s);
    float d = sqrtf(fmaf(block_sum(s), 1.0f / 70, 1e-6f));
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = w[i] * (x[i] / d);
}
extern "C" __global__ void squares(const float* x, float* part, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
    atomicAdd(&part[blockIdx.x], s);
}
extern "C" __global__ void scale(const float* x, const float* w, const float* part, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += 32)
        y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * w[i] / sqrtf((part[blockIdx.x] + n * 1e-6f) / n);
}
""",
    make=draw(
        x=normal(3, _N), w=normal(_N), y=Empty(dtype=F32, size=3 * _N), part=np.zeros(3, np.float32)
    ),
    outputs={"y": "f32"},
    forms=(
        one("warp_rows", *_NORM, grid=3),
        one("block_rows", *_NORM, grid=3, block=128),
        Form(
            name="two_kernels",
            steps=(
                Step(kernel="squares", arguments=("x", "part", i32(_N)), grid=3),
                Step(kernel="scale", arguments=("x", "w", "part", "y", i32(_N)), grid=3),
            ),
        ),
    ),
    faults=(
        Slip("epsilon_outside_of_the_root", "warp_rows", "rsqrtf(warp_sum(s) / n + 1e-6f)",
             "1.0f / (sqrtf(warp_sum(s) / n) + 1e-6f)"),
        Slip("epsilon_1e5", "warp_rows", "1e-6f", "1e-5f"),
        Slip("epsilon_before_the_mean", "warp_rows", "warp_sum(s) / n + 1e-6f", "(warp_sum(s) + 1e-6f) / n"),
        Slip("epsilon_in_the_seventh_digit", "block_rows", "1e-6f", "1.000001e-6f"),
        Slip("mean_over_69", "block_rows", "1.0f / 70", "1.0f / 69"),
        Slip("weight_left_out", "two_kernels", "* w[i] / sqrtf", "/ sqrtf"),
        Slip("weight_of_the_neighbour", "block_rows", "w[i] *", "w[(i + 1) % n] *"),
    ),
)  # fmt: skip
LAYERNORM = Family(
    name="layernorm",
    source=WARP + """
extern "C" __global__ void two_pass(const float* x, const float* w, const float* b, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += x[i];
    float m = warp_sum(s) / n;
    for (int i = threadIdx.x; i < n; i += 32) q += (x[i] - m) * (x[i] - m);
    float r = rsqrtf(warp_sum(q) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = (x[i] - m) * r * w[i] + b[i];
}
extern "C" __global__ void welford(const float* x, const float* w, const float* b, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float m = 0, q = 0, c = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        c += 1; float d = x[i] - m; m += d / c; q += d * (x[i] - m);
    }
    for (int o = 16; o; o >>= 1) {
        float m2 = __shfl_xor_sync(~0u, m, o), q2 = __shfl_xor_sync(~0u, q, o);
        float c2 = __shfl_xor_sync(~0u, c, o), d = m2 - m, all = c + c2;
        q += q2 + d * d * c * c2 / all;
        m = (m * c + m2 * c2) / all; c = all;
    }
    float r = 1.0f / sqrtf(q / c + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 32) y[i] = fmaf((x[i] - m) * r, w[i], b[i]);
}
extern "C" __global__ void moments(const float* x, const float* w, const float* b, float* y, int n) {
    x += blockIdx.x * n; y += blockIdx.x * n;
    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) { s += x[i]; q += x[i] * x[i]; }
    s = block_sum(s) / n; q = block_sum(q) / n;
    float r = rsqrtf(q - s * s + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * (r * w[i]) + (b[i] - s * r * w[i]);
}
""",
    make=draw(
        x=normal(3, _N), w=normal(_N), b=normal(_N), y=Empty(dtype=F32, size=3 * _N)
    ),
    outputs={"y": "f32"},
    forms=(
        one("two_pass", "x", "w", "b", "y", i32(_N), grid=3),
        one("welford", "x", "w", "b", "y", i32(_N), grid=3),
        one("moments", "x", "w", "b", "y", i32(_N), grid=3, block=64),
    ),
    faults=(
        Slip("welford_with_the_old_mean_twice", "welford", "q += d * (x[i] - m)", "q += d * d"),
        Slip("merge_without_the_distance", "welford", "q += q2 + d * d * c * c2 / all", "q += q2"),
        Slip("unbiased_variance", "two_pass", "warp_sum(q) / n", "warp_sum(q) / (n - 1)"),
        Slip("mean_not_squared", "moments", "q - s * s", "q - s"),
        Slip("bias_left_out", "moments", "(b[i] - s * r * w[i])", "(-s * r * w[i])"),
    ),
)  # fmt: skip
