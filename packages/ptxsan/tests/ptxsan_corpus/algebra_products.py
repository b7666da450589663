"""Products in forms that are one expression: matmul and attention."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.algebra_family import Family, Form, Slip, Step, one
from ptxsan_corpus.case import F16, F32, Empty, draw, i32, normal

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
