"""Kernels whose arithmetic is sound, as twins of the precision faults: long sums, variances, logs."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import BF16, F16, F32, Arrays, Empty, Kernel, draw, f32, i32, normal, wide

LONG = 2048


def _positive(count: int, dtype: np.dtype = F32) -> object:
    return lambda rng: (0.5 + rng.random(count)).astype(dtype)


def _row_sum(name: str, type_: str, dtype: np.dtype) -> Kernel:
    return Kernel(
        name=name,
        family="long sum",
        source=f"""
extern "C" __global__ void k(const {type_}* x, {type_}* y, int rows, int n) {{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int i = 0; i < n; ++i) s = s + (float)x[i * rows + r];
    y[r] = ({type_})s;
}}
""",
        make=draw(x=_positive(16 * LONG, dtype), y=Empty(dtype=dtype, size=16)),
        expect=lambda m: {"y": wide(m["x"]).reshape(LONG, 16).sum(0)},
        arguments=("x", "y", i32(16), i32(LONG)),
        tolerance=1e-5 if dtype.itemsize == 4 else 1e-2,
    )


ATOMIC_SUM = Kernel(
    name="hot_row_gradient",
    family="long sum",
    source="""
extern "C" __global__ void k(const __nv_bfloat16* g, const int* ids, float* w, int tokens) {
    for (int t = blockIdx.x; t < tokens; t += gridDim.x)
        atomicAdd(w + ids[t] * 32 + threadIdx.x, (float)g[t * 32 + threadIdx.x]);
}
""",
    make=draw(
        g=lambda rng: (0.5 + rng.random(600 * 32)).astype(BF16),
        ids=lambda rng: rng.integers(0, 2, 600).astype(np.int32),
        w=np.zeros(64, dtype=np.float32),
    ),
    expect=lambda m: {
        "w": np.stack(
            [wide(m["g"]).reshape(600, 32)[m["ids"] == i].sum(0) for i in range(2)]
        ).reshape(-1)
    },
    arguments=("g", "ids", "w", i32(600)),
    grid=(4, 1, 1),
)

VARIANCE = Kernel(
    name="variance_two_passes",
    family="cancellation",
    source="""
extern "C" __global__ void k(const float* x, float* y, int rows, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) s += x[r * n + i];
    float mean = s / n;
    for (int i = 0; i < n; ++i) q += (x[r * n + i] - mean) * (x[r * n + i] - mean);
    y[r] = q / n;
}
""",
    make=draw(
        x=lambda rng: (1000 + rng.standard_normal(16 * 256)).astype(np.float32),
        y=Empty(dtype=F32, size=16),
    ),
    expect=lambda m: {"y": wide(m["x"]).reshape(16, 256).var(1)},
    arguments=("x", "y", i32(16), i32(256)),
    tolerance=1e-3,
)

SOFTMAX = Kernel(
    name="softmax_of_large_logits",
    family="overflow",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    const float* row = x + blockIdx.x * n;
    float m = -INFINITY, s = 0;
    for (int i = 0; i < n; ++i) m = fmaxf(m, row[i]);
    for (int i = 0; i < n; ++i) s += expf(row[i] - m);
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = expf(row[i] - m) / s;
}
""",
    make=draw(
        x=lambda rng: (60 * rng.standard_normal(4 * 64)).astype(np.float32),
        y=Empty(dtype=F32, size=256),
    ),
    expect=lambda m: {"y": _softmax(wide(m["x"]).reshape(4, 64)).reshape(-1)},
    arguments=("x", "y", i32(64)),
    grid=(4, 1, 1),
    tolerance=1e-4,
)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def _pointwise(name: str, body: str, low: float, high: float, expect: object) -> Kernel:
    return Kernel(
        name=name,
        family="cancellation",
        source=f"""
extern "C" __global__ void k(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    {body}
}}
""",
        make=draw(
            x=lambda rng: (low + (high - low) * rng.random(200)).astype(np.float32),
            y=Empty(dtype=F32, size=200),
        ),
        expect=lambda m: {"y": expect(wide(m["x"]))},  # type: ignore[operator]
        arguments=("x", "y", i32(200)),
        grid=(4, 1, 1),
        block=(64, 1, 1),
        tolerance=1e-4,
    )


HALF_DOT = Kernel(
    name="half_dot_float_accumulator",
    family="long sum",
    source="""
extern "C" __global__ void k(const __half2* a, const __half2* b, float* y, int pairs) {  // half
    float s = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += 32) {
        float2 u = __half22float2(a[i]), v = __half22float2(b[i]);
        s = s + u.x * v.x + u.y * v.y;
    }
    for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (threadIdx.x == 0) y[0] = s;
}
""",
    make=draw(a=_positive(4096, F16), b=_positive(4096, F16), y=Empty(dtype=F32, size=1)),
    expect=lambda m: {"y": (wide(m["a"]) * wide(m["b"])).sum().reshape(1)},
    arguments=("a", "b", "y", i32(2048)),
)


def _momentum(m: Arrays) -> Arrays:
    v = wide(m["v"])
    for _ in range(100):
        v = 0.999 * v + 0.001 * wide(m["g"]) ** 2
    return {"v": v}


MOMENT = Kernel(
    name="second_moment_updates",
    family="stagnation",
    source="""
extern "C" __global__ void k(float* v, const float* g, float beta, int steps) {
    int i = threadIdx.x;
    float m = v[i];
    for (int s = 0; s < steps; ++s) m = beta * m + (1.0f - beta) * g[i] * g[i];
    v[i] = m;
}
""",
    make=draw(v=np.ones(32, dtype=np.float32), g=normal(32)),
    expect=_momentum,
    arguments=("v", "g", f32(0.999), i32(100)),
    tolerance=1e-4,
)

KERNELS = (
    _row_sum("row_sum_float32", "float", F32),
    _row_sum("row_sum_bfloat16", "__nv_bfloat16", BF16),
    ATOMIC_SUM,
    VARIANCE,
    SOFTMAX,
    _pointwise("log_of_one_plus", "y[i] = log1pf(v);", 1e-6, 1e-5, np.log1p),
    _pointwise("exp_minus_one", "y[i] = expm1f(v);", 1e-6, 1e-5, np.expm1),
    _pointwise(
        "root_difference",
        "y[i] = 1.0f / (sqrtf(v + 1.0f) + sqrtf(v));",
        1e5,
        1e6,
        lambda v: 1 / (np.sqrt(v + 1) + np.sqrt(v)),
    ),
    _pointwise(
        "one_minus_cosine",
        "float h = sinf(0.5f * v); y[i] = 2.0f * h * h;",
        1e-3,
        2e-3,
        lambda v: 2 * np.sin(v / 2) ** 2,
    ),
    _pointwise(
        "sigmoid_gradient",
        "float e = expf(-v); y[i] = e / ((1.0f + e) * (1.0f + e));",
        12.0,
        14.0,
        lambda v: np.exp(-v) / (1 + np.exp(-v)) ** 2,
    ),
    _pointwise("length", "y[i] = v * sqrtf(2.0f);", 2e19, 1e20, lambda v: v * np.sqrt(2)),
    HALF_DOT,
    MOMENT,
)
