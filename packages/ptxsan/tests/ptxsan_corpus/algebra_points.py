"""Pointwise operators and sums in forms that are one expression: GELU, Adam, a reduction."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.algebra_family import WARP, Family, Slip, one
from ptxsan_corpus.case import F32, Empty, draw, f32, i32, normal

_N = 70
_ROWS = ("x", "y", i32(_N))
GELU = Family(
    name="gelu",
    source="""
__device__ float tanh_approx(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
extern "C" __global__ void tanh_form(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + tanh_approx(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
extern "C" __global__ void sigmoid_form(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    float u = 0.7978845608f * x[i] * fmaf(0.044715f, x[i] * x[i], 1.0f);
    y[i] = x[i] / (1.0f + expf(-2.0f * u));
}
extern "C" __global__ void exponential_form(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    float e = __expf(1.5957691216f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    y[i] = x[i] * (e / (e + 1.0f));
}
""",
    make=draw(x=normal(_N), y=Empty(dtype=F32, size=_N)),
    outputs={"y": "f32"},
    forms=(
        one("tanh_form", *_ROWS, grid=3),
        one("sigmoid_form", *_ROWS, grid=3),
        one("exponential_form", *_ROWS, grid=3),
    ),
    faults=(
        Slip("cubic_in_the_sixth_digit", "sigmoid_form", "0.044715f", "0.0447151f"),
        Slip("cube_is_a_square", "tanh_form", "0.044715f * x[i] * x[i] * x[i]", "0.044715f * x[i] * x[i]"),
        Slip("half_forgotten", "tanh_form", "0.5f * x[i]", "x[i]"),
    ),
)  # fmt: skip
_STEP = ("p", "g", "m", "v", i32(_N), f32(0.1), f32(0.01))
ADAM = Family(
    name="adam",
    source="""
extern "C" __global__ void textbook(float* p, const float* g, float* m, float* v, int n, float c, float lr) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    float a = 0.9f * m[i] + (1.0f - 0.9f) * g[i], b = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= lr * (a / c) / (sqrtf(b / (c * c)) + 1e-8f);
    m[i] = a; v[i] = b;
}
extern "C" __global__ void folded(float* p, const float* g, float* m, float* v, int n, float c, float lr) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    float b = fmaf(0.999f, v[i], 0.001f * (g[i] * g[i])), a = fmaf(0.9f, m[i], (1.0f - 0.9f) * g[i]);
    v[i] = b; m[i] = a;
    p[i] = fmaf(-lr, a / (c * (sqrtf(b / c / c) + 1e-8f)), p[i]);
}
""",
    make=draw(
        p=normal(_N), g=normal(_N), m=normal(_N),
        v=lambda rng: np.square(rng.standard_normal(_N)).astype(np.float32),
    ),
    outputs={"p": "f32", "m": "f32", "v": "f32"},
    forms=(one("textbook", *_STEP, grid=3), one("folded", *_STEP, grid=3)),
    faults=(
        Slip("epsilon_below_the_root", "folded", "(sqrtf(b / c / c) + 1e-8f)", "sqrtf(b / c / c + 1e-8f)"),
        Slip("gradient_not_squared", "folded", "(g[i] * g[i])", "g[i]"),
    ),
)  # fmt: skip
REDUCE = Family(
    name="reduction",
    source=WARP + """
extern "C" __global__ void tree(const float* x, float* y, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
    s = block_sum(s);
    if (threadIdx.x == 0) y[0] = s;
}
extern "C" __global__ void atomics(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) atomicAdd(y, x[i]);
}
extern "C" __global__ void compensated(const float* x, float* y, int n) {
    float s = 0, c = 0;
    if (threadIdx.x) return;
    for (int i = 0; i < n; i++) {
        float t = __fadd_rn(s, x[i]);
        float d = fabsf(s) >= fabsf(x[i]) ? __fadd_rn(__fsub_rn(s, t), x[i]) : __fadd_rn(__fsub_rn(x[i], t), s);
        c = __fadd_rn(c, d); s = t;
    }
    y[0] = s + c;
}
extern "C" __global__ void vectors(const float4* x, float* y, int n) {
    float s = 0;
    for (int i = threadIdx.x; i < n / 4; i += 32) { float4 v = x[i]; s += (v.x + v.y) + (v.z + v.w); }
    s = warp_sum(s);
    if (threadIdx.x == 0) y[0] = s;
}
""",
    make=draw(x=normal(200), y=np.zeros(1, np.float32)),
    outputs={"y": "f32"},
    forms=(
        one("tree", "x", "y", i32(200), block=128),
        one("atomics", "x", "y", i32(200), grid=7),
        one("compensated", "x", "y", i32(200)),
        one("vectors", "x", "y", i32(200)),
    ),
    faults=(
        Slip("lane_forgotten", "vectors", "(v.z + v.w)", "v.z"),
        Slip("counted_twice", "atomics", "atomicAdd(y, x[i])", "atomicAdd(y, i ? x[i] : 2 * x[i])"),
    ),
)  # fmt: skip
