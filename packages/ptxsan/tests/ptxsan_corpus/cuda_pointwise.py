"""Kernels without sharing: elementwise in every type, vector loads, packed halves, local arrays."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import (
    BF16,
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    Arrays,
    Empty,
    Kernel,
    draw,
    f32,
    i32,
    i64,
    normal,
    wide,
)

N = 1000


def _saxpy(type_: str, dtype: np.dtype) -> Kernel:
    source = f"""
extern "C" __global__ void k(const {type_}* x, const {type_}* y, {type_}* z, float a, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = ({type_})(a * (float)x[i] + (float)y[i]);
}}
"""
    if type_ == "float":
        source = source.replace("(float)", "")
    return Kernel(
        name=f"saxpy_{dtype.name}",
        family="elementwise",
        source=source,
        make=draw(x=normal(N, dtype=dtype), y=normal(N, dtype=dtype), z=Empty(dtype=dtype, size=N)),
        expect=lambda m: {"z": 0.5 * wide(m["x"]) + wide(m["y"])},
        arguments=("x", "y", "z", f32(0.5), i32(N)),
        grid=(8, 1, 1),
        block=(128, 1, 1),
        tolerance=1e-5 if dtype.itemsize >= 4 else 8e-3,
    )


def _function(name: str, body: str, expect: object, **more: object) -> Kernel:
    """Return a kernel y[i] = body(x[i]) in float32."""
    fields: dict[str, object] = {"tolerance": 2e-5, **more}
    return Kernel(
        name=name,
        family="elementwise",
        source=f"""
extern "C" __global__ void k(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    {body}
}}
""",
        make=draw(x=normal(N), y=Empty(dtype=F32, size=N)),
        expect=lambda m: {"y": expect(wide(m["x"]))},  # type: ignore[operator]
        arguments=("x", "y", i32(N)),
        grid=(8, 1, 1),
        block=(128, 1, 1),
        **fields,  # type: ignore[arg-type]
    )


def _sigmoid(v: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-v)))


GRID_STRIDE = Kernel(
    name="grid_stride_scale",
    family="elementwise",
    source="""
extern "C" __global__ void k(const float* __restrict__ x, float* y, long long n) {
    long long step = (long long)blockDim.x * gridDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = 3.0f * x[i];
}
""",
    make=draw(x=normal(5000), y=Empty(dtype=F32, size=5000)),
    expect=lambda m: {"y": 3 * wide(m["x"])},
    arguments=("x", "y", i64(5000)),
    grid=(3, 1, 1),
    block=(256, 1, 1),
)

FLOAT4 = Kernel(
    name="float4_copy_with_tail",
    family="vector",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
    } else {
        for (int j = i; j < n; ++j) y[j] = x[j] + 1;
    }
}
""",
    make=draw(x=normal(1003), y=Empty(dtype=F32, size=1003)),
    expect=lambda m: {"y": wide(m["x"]) + 1},
    arguments=("x", "y", i32(1003)),
    grid=(4, 1, 1),
    block=(64, 1, 1),
)

BF16X2 = Kernel(
    name="bf16x2_swiglu",
    family="packed halves",
    source="""
extern "C" __global__ void k(const __nv_bfloat162* a, const __nv_bfloat162* b,
                             __nv_bfloat162* y, int pairs) {  // bfloat16
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    float2 u = __bfloat1622float2(a[i]), v = __bfloat1622float2(b[i]);
    float p = u.x / (1.0f + __expf(-u.x)), q = u.y / (1.0f + __expf(-u.y));
    y[i] = __floats2bfloat162_rn(p * v.x, q * v.y);
}
""",
    make=draw(a=normal(512, dtype=BF16), b=normal(512, dtype=BF16), y=Empty(dtype=BF16, size=512)),
    expect=lambda m: {"y": wide(m["a"]) * _sigmoid(wide(m["a"])) * wide(m["b"])},
    arguments=("a", "b", "y", i32(256)),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    tolerance=8e-3,
)

HALF2 = Kernel(
    name="half2_fma_relu",
    family="packed halves",
    source="""
extern "C" __global__ void k(const __half2* a, const __half2* b, __half2* y, int pairs) {  // half
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) y[i] = __hmax2(__hfma2(a[i], b[i], a[i]), __float2half2_rn(0.0f));
}
""",
    make=draw(a=normal(512, dtype=F16), b=normal(512, dtype=F16), y=Empty(dtype=F16, size=512)),
    expect=lambda m: {"y": np.maximum(wide(m["a"]) * wide(m["b"]) + wide(m["a"]), 0)},
    arguments=("a", "b", "y", i32(256)),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    tolerance=2e-3,
)

BF16X2_NATIVE = Kernel(
    name="bf16x2_fma_native",
    family="packed halves",
    source="""
extern "C" __global__ void k(const __nv_bfloat162* a, const __nv_bfloat162* b,
                             __nv_bfloat162* y, int pairs) {  // bfloat16
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) y[i] = __hfma2(a[i], b[i], __hneg2(a[i]));
}
""",
    make=draw(a=normal(512, dtype=BF16), b=normal(512, dtype=BF16), y=Empty(dtype=BF16, size=512)),
    expect=lambda m: {"y": wide(m["a"]) * wide(m["b"]) - wide(m["a"])},
    arguments=("a", "b", "y", i32(256)),
    grid=(2, 1, 1),
    block=(128, 1, 1),
    tolerance=1.2e-2,
)


def _ffs(m: Arrays) -> Arrays:
    x = m["x"].astype(np.uint32)
    bits = np.array([bin(int(v)).count("1") for v in x])
    clz = np.array([32 - int(v).bit_length() for v in x])
    rev = np.array([int(f"{int(v):032b}"[::-1], 2) for v in x], dtype=np.uint32).view(np.int32)
    return {"y": np.stack([bits, clz, rev.astype(np.int64)], axis=1).reshape(-1)}


BITS = Kernel(
    name="bit_tricks",
    family="integer",
    source="""
extern "C" __global__ void k(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[3 * i] = __popc(x[i]);
    y[3 * i + 1] = __clz(x[i]);
    y[3 * i + 2] = (int)__brev((unsigned)x[i]);
}
""",
    make=draw(
        x=lambda rng: rng.integers(-(2**31), 2**31, 200).astype(np.int32),
        y=Empty(dtype=I32, size=600),
    ),
    expect=_ffs,
    arguments=("x", "y", i32(200)),
    grid=(4, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

DIVISION = Kernel(
    name="integer_division",
    family="integer",
    source="""
extern "C" __global__ void k(const long long* x, long long* y, int d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] / d) * 1000 + x[i] % (d + 3) + (i / d) * (i % d);
}
""",
    make=draw(
        x=lambda rng: rng.integers(0, 10**9, 200).astype(np.int64),
        y=Empty(dtype=I64, size=200),
    ),
    expect=lambda m: {
        "y": (m["x"] // 7) * 1000 + m["x"] % 10 + (np.arange(200) // 7) * (np.arange(200) % 7)
    },
    arguments=("x", "y", i32(7), i32(200)),
    grid=(4, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

BYTES = Kernel(
    name="byte_quantise",
    family="integer",
    source="""
extern "C" __global__ void k(const float* x, unsigned char* y, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (unsigned char)(fminf(fmaxf(rintf(x[i] * scale) + 128.0f, 0.0f), 255.0f));
}
""",
    make=draw(x=normal(500), y=Empty(dtype=U8, size=500)),
    expect=lambda m: {"y": np.clip(np.rint(m["x"] * np.float32(40)) + 128, 0, 255)},
    arguments=("x", "y", f32(40), i32(500)),
    grid=(4, 1, 1),
    block=(128, 1, 1),
    tolerance=0.0,
)

LOCAL = Kernel(
    name="local_array_sort",
    family="local memory",
    source="""
extern "C" __global__ void k(const float* x, float* y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float v[9];
    for (int i = 0; i < 9; ++i) v[i] = x[9 * r + i];
#pragma unroll 1
    for (int i = 0; i < 8; ++i)
#pragma unroll 1
        for (int j = 0; j < 8 - i; ++j)
            if (v[j] > v[j + 1]) { float t = v[j]; v[j] = v[j + 1]; v[j + 1] = t; }
    for (int i = 0; i < 9; ++i) y[9 * r + i] = v[i];
}
""",
    make=draw(x=normal(900), y=Empty(dtype=F32, size=900)),
    expect=lambda m: {"y": np.sort(wide(m["x"]).reshape(100, 9), axis=1).reshape(-1)},
    arguments=("x", "y", i32(100)),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

LOCAL_LUT = Kernel(
    name="local_histogram_of_digits",
    family="local memory",
    source="""
extern "C" __global__ void k(const int* x, int* y, int rows, int length) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int counts[10];
#pragma unroll 1
    for (int d = 0; d < 10; ++d) counts[d] = 0;
#pragma unroll 1
    for (int i = 0; i < length; ++i) counts[x[r * length + i]]++;
#pragma unroll 1
    for (int d = 0; d < 10; ++d) y[r * 10 + d] = counts[d];
}
""",
    make=draw(
        x=lambda rng: rng.integers(0, 10, 60 * 25).astype(np.int32), y=Empty(dtype=I32, size=600)
    ),
    expect=lambda m: {
        "y": np.stack([np.bincount(r, minlength=10) for r in m["x"].reshape(60, 25)]).reshape(-1)
    },
    arguments=("x", "y", i32(60), i32(25)),
    grid=(1, 1, 1),
    block=(64, 1, 1),
    tolerance=0.0,
)

KERNELS = (
    *(_saxpy(t, d) for t, d in (("float", F32), ("double", F64), ("__half", F16))),
    _saxpy("__nv_bfloat16", BF16),
    _function(
        "gelu_tanh",
        "y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));",
        lambda v: 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))),
    ),
    _function("silu", "y[i] = v / (1.0f + expf(-v));", lambda v: v * _sigmoid(v)),
    _function("softcap", "y[i] = 30.0f * tanhf(v / 30.0f);", lambda v: 30 * np.tanh(v / 30)),
    _function(
        "logsigmoid",
        "y[i] = fminf(v, 0.0f) - log1pf(expf(-fabsf(v)));",
        lambda v: np.minimum(v, 0) - np.log1p(np.exp(-np.abs(v))),
    ),
    _function(
        "rsqrt_exact",
        "y[i] = rsqrtf(v * v + 1e-3f) + sqrtf(fabsf(v)) + 1.0f / (2.0f + v * v);",
        lambda v: (v * v + 1e-3) ** -0.5 + np.sqrt(np.abs(v)) + 1 / (2 + v * v),
    ),
    _function("sincos", "y[i] = sinf(v) * cosf(0.5f * v);", lambda v: np.sin(v) * np.cos(0.5 * v)),
    _function(
        "pow_abs",
        "y[i] = powf(fabsf(v) + 0.1f, 1.7f);",
        lambda v: (np.abs(v) + 0.1) ** 1.7,
        tolerance=1e-4,
    ),
    _function(
        "erf_gelu",
        "y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));",
        lambda v: 0.5 * v * (1 + np.vectorize(__import__("math").erf)(v * 0.70710678)),
    ),
    _function(
        "divergent_branches",
        "if (v > 0.5f) y[i] = v * 2; else if (v > -0.5f) { float s = 0; for (int j = 0; j < 5; ++j) s += v; y[i] = s; } else y[i] = -v;",
        lambda v: np.where(v > 0.5, v * 2, np.where(v > -0.5, 5 * v, -v)),
    ),
    GRID_STRIDE,
    FLOAT4,
    BF16X2,
    HALF2,
    BF16X2_NATIVE,
    BITS,
    DIVISION,
    BYTES,
    LOCAL,
    LOCAL_LUT,
)
