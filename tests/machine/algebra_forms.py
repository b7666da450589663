"""Operators in several forms that are the same real-number expression, and faults in some of them.

Every form of a family is compared with the first one. Forms differ in tiles, warps, trees, fusion
and passes; a fault is an edit of one form after which it is another expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tests.machine.case import F16, F32, Array, Empty, Number, draw, f32, i32, normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One launch of a form: a kernel of the family's source."""

    kernel: str
    arguments: tuple[str | Number, ...]
    grid: int | tuple[int, int, int] = 1
    block: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to compute a family's outputs."""

    name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Slip:
    """A fault: in form `form`, `old` becomes `new` in the source (everywhere)."""

    name: str
    form: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An operator: its forms share memory (`make`) and leave `outputs` (name to PTX type)."""

    name: str
    source: str
    make: Callable[[np.random.Generator], Mapping[str, Array | Empty]]
    outputs: Mapping[str, str]
    forms: tuple[Form, ...]
    faults: tuple[Slip, ...] = ()


def one(name: str, *arguments: str | Number, grid: int = 1, block: int = 32) -> Form:
    """Return a form of one kernel, named as the form."""
    return Form(
        name=name,
        steps=(Step(kernel=name, arguments=arguments, grid=grid, block=block),),
    )


_WARP = """
#define INF __int_as_float(0x7f800000)
__device__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
__device__ float warp_max(float v) {
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float part[128];
    part[threadIdx.x] = v; __syncthreads();
    for (int s = blockDim.x / 2; s; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    float all = part[0]; __syncthreads();
    return all;
}
"""
_N = 70
_ROWS = ("x", "y", i32(_N))
SOFTMAX = Family(
    name="softmax",
    source=_WARP + """
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
    source=_WARP + """
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
    source=_WARP + """
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
_M, _K = 32, 40
_GEMM = ("a", "b", "c", i32(_K))
MATMUL = Family(
    name="matmul",
    source="""#include <mma.h>
#include <cuda_fp16.h>
extern "C" __global__ void naive(const half* a, const half* b, float* c, int k) {
    int row = blockIdx.x, column = threadIdx.x;
    float s = 0;
    for (int i = 0; i < k; i++) s += __half2float(a[row * k + i]) * __half2float(b[i * 32 + column]);
    c[row * 32 + column] = s;
}
extern "C" __global__ void tiled(const half* a, const half* b, float* c, int k) {
    __shared__ float ta[8][8], tb[8][8];
    int r = threadIdx.x / 8, q = threadIdx.x % 8;
    int row = blockIdx.x / 4 * 8 + r, column = blockIdx.x % 4 * 8 + q;
    float s = 0;
    for (int t = 0; t < k; t += 8) {
        ta[r][q] = __half2float(a[row * k + t + q]);
        tb[r][q] = __half2float(b[(t + r) * 32 + column]);
        __syncthreads();
        for (int i = 0; i < 8; i++) s = fmaf(ta[r][i], tb[i][q], s);
        __syncthreads();
    }
    c[row * 32 + column] = s;
}
extern "C" __global__ void split_k(const half* a, const half* b, float* c, int k) {
    int row = blockIdx.x % 32, part = blockIdx.x / 32, column = threadIdx.x;
    float s = 0;
    for (int i = part * k / 4; i < (part + 1) * k / 4; i++)
        s += __half2float(a[row * k + i]) * __half2float(b[i * 32 + column]);
    atomicAdd(&c[row * 32 + column], s);
}
extern "C" __global__ void tensor_cores(const half* a, const half* b, float* c, int k) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    int row = blockIdx.x / 2 * 16, column = blockIdx.x % 2 * 16;
    __shared__ half ta[256], tb[256];
    fill_fragment(fc, 0.0f);
    for (int t = 0; t < k; t += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            int r = i / 16, q = i % 16;
            ta[i] = t + q < k ? a[(row + r) * k + t + q] : __float2half(0.0f);
            tb[i] = t + r < k ? b[(t + r) * 32 + column + q] : __float2half(0.0f);
        }
        __syncwarp();
        load_matrix_sync(fa, ta, 16); load_matrix_sync(fb, tb, 16);
        mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    store_matrix_sync(c + row * 32 + column, fc, 32, mem_row_major);
}
""",
    make=draw(
        a=normal(_M, _K, dtype=F16), b=normal(_K, 32, dtype=F16), c=np.zeros(_M * 32, np.float32)
    ),
    outputs={"c": "f32"},
    forms=(
        one("naive", *_GEMM, grid=32),
        one("tiled", *_GEMM, grid=16, block=64),
        one("split_k", *_GEMM, grid=128),
        one("tensor_cores", *_GEMM, grid=4),
    ),
    faults=(
        Slip("last_column_dropped", "naive", "i < k;", "i < k - 1;"),
        Slip("tile_off_by_one", "tiled", "i < 8;", "i < 7;"),
        Slip("tile_transposed", "tiled", "tb[i][q]", "tb[q][i]"),
        Slip("a_part_twice", "split_k", "int i = part * k / 4;", "int i = part * k / 4 - (part > 0);"),
        Slip("tail_tile_dropped", "tensor_cores", "t < k; t += 16", "t < k - 15; t += 16"),
        Slip("operands_swapped", "tensor_cores", "mma_sync(fc, fa, fb, fc)",
             "load_matrix_sync(fa, tb, 16); load_matrix_sync(fb, ta, 16); mma_sync(fc, fa, fb, fc)"),
    ),
)  # fmt: skip
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
_D, _L = 16, 40
ATTENTION = Family(
    name="attention",
    source="""
#define INF __int_as_float(0x7f800000)
extern "C" __global__ void scores(const float* q, const float* k, float* s, int l) {
    int i = blockIdx.x;
    for (int j = threadIdx.x; j < l; j += 32) {
        float d = 0;
        for (int e = 0; e < 16; e++) d += q[i * 16 + e] * k[j * 16 + e];
        s[i * l + j] = j <= i ? d * 0.25f : -INF;
    }
}
extern "C" __global__ void weights(float* s, int l) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= l) return;
    float m = -INF, t = 0;
    for (int j = 0; j < l; j++) m = fmaxf(m, s[i * l + j]);
    for (int j = 0; j < l; j++) t += expf(s[i * l + j] - m);
    for (int j = 0; j < l; j++) s[i * l + j] = expf(s[i * l + j] - m) / t;
}
extern "C" __global__ void values(const float* s, const float* v, float* o, int l) {
    float a = 0;
    for (int j = 0; j < l; j++) a += s[blockIdx.x * l + j] * v[j * 16 + threadIdx.x];
    o[blockIdx.x * 16 + threadIdx.x] = a;
}
extern "C" __global__ void flash(const float* q, const float* k, const float* v, float* o, int l) {
    int i = blockIdx.x * 8 + threadIdx.x;
    __shared__ float tk[8][16], tv[8][16];
    float r[16], a[16], m = -INF, t = 0;
    for (int e = 0; e < 16; e++) { r[e] = q[i * 16 + e] * (0.25f * 1.44269504f); a[e] = 0; }
    for (int b = 0; b <= blockIdx.x; b++) {
        for (int e = 0; e < 16; e++) {
            tk[threadIdx.x][e] = k[(b * 8 + threadIdx.x) * 16 + e];
            tv[threadIdx.x][e] = v[(b * 8 + threadIdx.x) * 16 + e];
        }
        __syncthreads();
        float s[8], high = m;
        for (int j = 0; j < 8; j++) {
            s[j] = 0;
            for (int e = 0; e < 16; e++) s[j] += r[e] * tk[j][e];
            if (b * 8 + j > i) s[j] = -INF;
            high = fmaxf(high, s[j]);
        }
        float c = exp2f(m - high);
        t *= c; m = high;
        for (int e = 0; e < 16; e++) a[e] *= c;
        for (int j = 0; j < 8; j++) {
            float p = exp2f(s[j] - m);
            t += p;
            for (int e = 0; e < 16; e++) a[e] += p * tv[j][e];
        }
        __syncthreads();
    }
    for (int e = 0; e < 16; e++) o[i * 16 + e] = a[e] / t;
}
""",
    make=draw(
        q=normal(_L, _D), k=normal(_L, _D), v=normal(_L, _D), s=Empty(dtype=F32, size=_L * _L),
        o=Empty(dtype=F32, size=_L * _D),
    ),
    outputs={"o": "f32"},
    forms=(
        Form(
            name="three_kernels",
            steps=(
                Step(kernel="scores", arguments=("q", "k", "s", i32(_L)), grid=_L),
                Step(kernel="weights", arguments=("s", i32(_L)), grid=2),
                Step(kernel="values", arguments=("s", "v", "o", i32(_L)), grid=_L, block=16),
            ),
        ),
        one("flash", "q", "k", "v", "o", i32(_L), grid=5, block=8),
    ),
    faults=(
        Slip("accumulator_not_rescaled", "flash", "a[e] *= c;", "a[e] *= 1.0f;"),
        Slip("sum_not_rescaled", "flash", "t *= c; m = high;", "m = high;"),
        Slip("scale_left_out", "flash", "(0.25f * 1.44269504f)", "1.44269504f"),
        Slip("mask_off_by_one", "flash", "b * 8 + j > i", "b * 8 + j >= i + (i > 0 ? 0 : 1)"),
        Slip("exp_instead_of_exp2", "flash", "float p = exp2f(s[j] - m)", "float p = expf(s[j] - m)"),
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
    source=_WARP + """
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
FAMILIES = (SOFTMAX, RMSNORM, LAYERNORM, MATMUL, GELU, ATTENTION, ADAM, REDUCE)
