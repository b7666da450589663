"""Matrix products and attention: shared tiles, wmma, mma + ldmatrix, cp.async, split-K."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsan_corpus.case import BF16, F16, F32, Arrays, Empty, Kernel, draw, i32, normal, wide


def product(m: int, n: int, k: int, *, transposed: bool = False) -> Callable[[Arrays], Arrays]:
    """Return what computes c = a b from row-major a [m, k] and b [k, n] (or [n, k])."""

    def expect(memory: Arrays) -> Arrays:
        a, b = wide(memory["a"]).reshape(m, k), wide(memory["b"])
        b = b.reshape(n, k).T if transposed else b.reshape(k, n)
        return {"c": (a @ b).reshape(-1)}

    return expect


NAIVE = Kernel(
    name="matmul_naive",
    family="matmul",
    source="""
extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int n, int kk) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float s = 0;
    for (int i = 0; i < kk; ++i) s += a[row * kk + i] * b[i * n + col];
    c[row * n + col] = s;
}
""",
    make=draw(a=normal(20 * 37), b=normal(37 * 27), c=Empty(dtype=F32, size=540)),
    expect=product(20, 27, 37),
    arguments=("a", "b", "c", i32(20), i32(27), i32(37)),
    grid=(2, 2, 1),
    block=(16, 16, 1),
)

TILED_SOURCE = """
extern "C" __global__ void k(const T* a, const T* b, T* c, int m, int n, int kk) {
    __shared__ float as[16][17];
    __shared__ float bs[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float s = 0;
    for (int k0 = 0; k0 < kk; k0 += 16) {
        as[ty][tx] = row < m && k0 + tx < kk ? (float)a[row * kk + k0 + tx] : 0.0f;
        bs[ty][tx] = col < n && k0 + ty < kk ? (float)b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) s += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = (T)s;
}
"""


def tiled(type_: str, dtype: np.dtype, m: int, n: int, k: int) -> Kernel:
    """Return a tiled product through shared memory."""
    return Kernel(
        name=f"matmul_tiled_{dtype.name}_{m}x{n}x{k}",
        family="matmul",
        source=TILED_SOURCE.replace("T*", f"{type_}*").replace("(T)", f"({type_})"),
        make=draw(
            a=normal(m * k, dtype=dtype),
            b=normal(k * n, dtype=dtype),
            c=Empty(dtype=dtype, size=m * n),
        ),
        expect=product(m, n, k),
        arguments=("a", "b", "c", i32(m), i32(n), i32(k)),
        grid=(-(-n // 16), -(-m // 16), 1),
        block=(16, 16, 1),
        tolerance=1e-5 if dtype == F32 else 1e-2,
    )


DOUBLE_BUFFER = Kernel(
    name="cp_async_double_buffer",
    family="cp.async",
    source="""
extern "C" __global__ void k(const float* x, const float* w, float* y, int tiles) {
    __shared__ __align__(16) float buf[3][2][128];  // pipeline
    int t = threadIdx.x;
    float s = 0;
    for (int p = 0; p < 2; ++p) {
        if (p < tiles) {
            __pipeline_memcpy_async(&buf[p][0][4 * t], x + (blockIdx.x * tiles + p) * 128 + 4 * t, 16);
            __pipeline_memcpy_async(&buf[p][1][4 * t], w + p * 128 + 4 * t, 16);
        }
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; ++i) {
        __pipeline_wait_prior(1);
        __syncthreads();
        int next = i + 2;
        if (next < tiles) {
            int b = next % 3;
            __pipeline_memcpy_async(&buf[b][0][4 * t], x + (blockIdx.x * tiles + next) * 128 + 4 * t, 16);
            __pipeline_memcpy_async(&buf[b][1][4 * t], w + next * 128 + 4 * t, 16);
        }
        __pipeline_commit();
        for (int j = 0; j < 4; ++j) s += buf[i % 3][0][t + 32 * j] * buf[i % 3][1][t + 32 * j];
    }
    for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (t == 0) y[blockIdx.x] = s;
}
""",
    make=draw(x=normal(3 * 5 * 128), w=normal(5 * 128), y=Empty(dtype=F32, size=3)),
    expect=lambda m: {"y": (wide(m["x"]).reshape(3, 640) * wide(m["w"])).sum(1)},
    arguments=("x", "w", "y", i32(5)),
    grid=(3, 1, 1),
    tolerance=1e-4,
)

TWO_WARPS = Kernel(
    name="cp_async_two_warps",
    family="cp.async",
    source="""
extern "C" __global__ void k(const float* x, float* y, int tiles) {
    __shared__ __align__(16) float buf[3][256];  // pipeline
    int t = threadIdx.x;
    for (int p = 0; p < 2; ++p) {
        if (p < tiles) __pipeline_memcpy_async(&buf[p][4 * t], x + p * 256 + 4 * t, 16);
        __pipeline_commit();
    }
    float s = 0;
    for (int i = 0; i < tiles; ++i) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (i + 2 < tiles)
            __pipeline_memcpy_async(&buf[(i + 2) % 3][4 * t], x + (i + 2) * 256 + 4 * t, 16);
        __pipeline_commit();
        for (int j = 0; j < 4; ++j) s += buf[i % 3][(t + 64 * j + 32) % 256];
    }
    y[t] = s;
}
""",
    make=draw(x=normal(5 * 256), y=Empty(dtype=F32, size=64)),
    expect=lambda m: {
        "y": np.roll(wide(m["x"]).reshape(5, 4, 64).sum((0, 1)), -32),
    },
    arguments=("x", "y", i32(5)),
    block=(64, 1, 1),
)


def wmma(type_: str, dtype: np.dtype, k: int) -> Kernel:
    """Return a product of 32 x 32 by wmma fragments, four warps a block."""
    return Kernel(
        name=f"wmma_{dtype.name}_k{k}",
        family="wmma",
        source=f"""
using namespace nvcuda;  // wmma bfloat16 half
extern "C" __global__ void k(const {type_}* a, const {type_}* b, float* c, int kk) {{
    int warp = threadIdx.x / 32, row = 16 * (warp / 2), col = 16 * (warp % 2);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, {type_}, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, {type_}, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < kk; i += 16) {{
        wmma::load_matrix_sync(fa, a + row * kk + i, kk);
        wmma::load_matrix_sync(fb, b + col * kk + i, kk);
        wmma::mma_sync(acc, fa, fb, acc);
    }}
    wmma::store_matrix_sync(c + row * 32 + col, acc, 32, wmma::mem_row_major);
}}
""",
        make=draw(
            a=normal(32 * k, dtype=dtype),
            b=normal(32 * k, dtype=dtype),
            c=Empty(dtype=F32, size=1024),
        ),
        expect=product(32, 32, k, transposed=True),
        arguments=("a", "b", "c", i32(k)),
        block=(128, 1, 1),
        tolerance=1e-5,
    )


WMMA_SHARED = Kernel(
    name="wmma_through_shared",
    family="wmma",
    source="""
using namespace nvcuda;  // wmma half
extern "C" __global__ void k(const __half* a, const __half* b, float* c, int kk) {
    __shared__ __align__(32) __half as[16 * 16];
    __shared__ __align__(32) __half bs[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < kk; k0 += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            as[i] = a[(i / 16) * kk + k0 + i % 16];
            bs[i] = b[(k0 + i / 16) * 16 + i % 16];
        }
        __syncthreads();
        wmma::load_matrix_sync(fa, as, 16);
        wmma::load_matrix_sync(fb, bs, 16);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(c, acc, 16, wmma::mem_row_major);
}
""",
    make=draw(
        a=normal(16 * 48, dtype=F16), b=normal(48 * 16, dtype=F16), c=Empty(dtype=F32, size=256)
    ),
    expect=product(16, 16, 48),
    arguments=("a", "b", "c", i32(48)),
    tolerance=1e-5,
)

MMA = Kernel(
    name="mma_m16n8k16_ldmatrix",
    family="mma",
    source="""
extern "C" __global__ void k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int kk) {
    __shared__ __align__(16) __nv_bfloat16 as[16 * 24];
    __shared__ __align__(16) __nv_bfloat16 bs[16 * 8];
    int t = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < kk; k0 += 16) {
        for (int i = t; i < 256; i += 32) as[(i / 16) * 24 + i % 16] = a[(i / 16) * kk + k0 + i % 16];
        for (int i = t; i < 128; i += 32) bs[i] = b[(k0 + i / 8) * 8 + i % 8];
        __syncthreads();
        unsigned ra[4], rb[2];
        unsigned pa = (unsigned)__cvta_generic_to_shared(as + (t % 16) * 24 + (t / 16) * 8);
        unsigned pb = (unsigned)__cvta_generic_to_shared(bs + (t % 16) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
        __syncthreads();
    }
    int row = t / 4, col = 2 * (t % 4);
    c[row * 8 + col] = d[0];
    c[row * 8 + col + 1] = d[1];
    c[(row + 8) * 8 + col] = d[2];
    c[(row + 8) * 8 + col + 1] = d[3];
}
""",
    make=draw(
        a=normal(16 * 64, dtype=BF16), b=normal(64 * 8, dtype=BF16), c=Empty(dtype=F32, size=128)
    ),
    expect=product(16, 8, 64),
    arguments=("a", "b", "c", i32(64)),
    tolerance=1e-5,
)


def _mma_register(name: str, body: str, **fields: object) -> Kernel:
    return Kernel(name=name, family="mma", source=body, **fields)  # type: ignore[arg-type]


MMA_F16 = _mma_register(
    "mma_m16n8k8_half_registers",
    """
extern "C" __global__ void k(const __half* a, const __half* b, float* c) {
    int t = threadIdx.x, g = t / 4, q = t % 4;
    unsigned ra[2], rb;
    ra[0] = *(const unsigned*)(a + g * 8 + 2 * q);
    ra[1] = *(const unsigned*)(a + (g + 8) * 8 + 2 * q);
    rb = *(const unsigned*)(b + g * 8 + 2 * q);
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(rb));
    c[g * 8 + 2 * q] = d[0];
    c[g * 8 + 2 * q + 1] = d[1];
    c[(g + 8) * 8 + 2 * q] = d[2];
    c[(g + 8) * 8 + 2 * q + 1] = d[3];
}
""",
    make=draw(
        a=normal(16 * 8, dtype=F16), b=normal(8 * 8, dtype=F16), c=Empty(dtype=F32, size=128)
    ),
    expect=product(16, 8, 8, transposed=True),
    arguments=("a", "b", "c"),
)

MMA_TF32 = _mma_register(
    "mma_m16n8k8_tf32_registers",
    """
__device__ unsigned tf32(float v) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
}
extern "C" __global__ void k(const float* a, const float* b, float* c) {
    int t = threadIdx.x, g = t / 4, q = t % 4;
    unsigned a0 = tf32(a[g * 8 + q]), a1 = tf32(a[(g + 8) * 8 + q]);
    unsigned a2 = tf32(a[g * 8 + q + 4]), a3 = tf32(a[(g + 8) * 8 + q + 4]);
    unsigned b0 = tf32(b[g * 8 + q]), b1 = tf32(b[g * 8 + q + 4]);
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    c[g * 8 + 2 * q] = d[0];
    c[g * 8 + 2 * q + 1] = d[1];
    c[(g + 8) * 8 + 2 * q] = d[2];
    c[(g + 8) * 8 + 2 * q + 1] = d[3];
}
""",
    make=draw(a=normal(128), b=normal(64), c=Empty(dtype=F32, size=128)),
    expect=product(16, 8, 8, transposed=True),
    arguments=("a", "b", "c"),
    tolerance=3e-3,
)

MMA_INT8 = _mma_register(
    "mma_m16n8k16_int8",
    """
extern "C" __global__ void k(const signed char* a, const signed char* b, int* c) {
    int t = threadIdx.x, g = t / 4, q = t % 4;
    unsigned a0 = *(const unsigned*)(a + g * 16 + 4 * q), a1 = *(const unsigned*)(a + (g + 8) * 16 + 4 * q);
    unsigned b0 = *(const unsigned*)(b + g * 16 + 4 * q);
    int d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
    c[g * 8 + 2 * q] = d[0];
    c[g * 8 + 2 * q + 1] = d[1];
    c[(g + 8) * 8 + 2 * q] = d[2];
    c[(g + 8) * 8 + 2 * q + 1] = d[3];
}
""",
    make=draw(
        a=lambda rng: rng.integers(-128, 128, 256).astype(np.int8),
        b=lambda rng: rng.integers(-128, 128, 128).astype(np.int8),
        c=Empty(dtype=np.dtype(np.int32), size=128),
    ),
    expect=product(16, 8, 16, transposed=True),
    arguments=("a", "b", "c"),
    tolerance=0.0,
)

KERNELS = (
    NAIVE,
    tiled("float", F32, 40, 33, 50),
    tiled("__half", F16, 32, 48, 32),
    tiled("__nv_bfloat16", BF16, 17, 31, 64),
    DOUBLE_BUFFER,
    TWO_WARPS,
    wmma("__half", F16, 32),
    wmma("__nv_bfloat16", BF16, 64),
    WMMA_SHARED,
    MMA,
    MMA_F16,
    MMA_TF32,
    MMA_INT8,
)
