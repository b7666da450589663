"""Kernels for sm_90: tiles by tensor maps (TMA), swizzled, shared by clusters, fed to wgmma."""

from __future__ import annotations

import numpy as np

from ptxsan_corpus.case import F16, F32, I32, Empty, Kernel, Tile, draw, i32, normal, wide
from ptxsan_corpus.hopper_words import WORDS

ARCH = "sm_90a"
_ROWS, _COLUMNS = 40, 52

TRANSPOSE = Kernel(
    name="tile_transpose_swizzled",
    family="tensor copies",
    source=WORDS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    __shared__ alignas(1024) float s[32 * 32];
    __shared__ alignas(128) float r[32 * 32];
    __shared__ u64 bar;
    int t = threadIdx.x, x = 32 * blockIdx.x, y = 32 * blockIdx.y;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        bar_expect(&bar, sizeof(s));
        tile_load(s, &in, x, y, &bar);
    }
    bar_wait(&bar, 0);
    for (int i = t; i < 1024; i += blockDim.x) {
        int row = i / 32, column = i % 32;
        r[column * 32 + row] = 2 * s[row * 32 + (column ^ ((row & 7) << 2))];
    }
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        tile_store(&out, y, x, r);
        bulk_commit();
        bulk_wait_read<0>();
    }
}
""",
    make=draw(x=normal(_ROWS * _COLUMNS), y=Empty(dtype=F32, size=_ROWS * _COLUMNS)),
    expect=lambda m: {"y": 2 * wide(m["x"]).reshape(_ROWS, _COLUMNS).T.reshape(-1)},
    arguments=(
        Tile(buffer="x", element="f32", sizes=(_COLUMNS, _ROWS), strides=(4 * _COLUMNS,),
             box=(32, 32), swizzle=128),
        Tile(buffer="y", element="f32", sizes=(_ROWS, _COLUMNS), strides=(4 * _ROWS,), box=(32, 32)),
    ),
    grid=(2, 2, 1),
    block=(128, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)  # fmt: skip

PRODUCTS = """asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int j = 0; j < 4; ++j) multiply(d, described(stage + 32 * j), described(stage + 8192 + 32 * j));
        asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");"""
RELEASE = "bar_arrive(empty + (i & 1));"
_D = ", ".join(f"%{index}" for index in range(32))
_BOUND = ", ".join(f'"+f"(d[{index}])' for index in range(32))

MATMUL = Kernel(
    name="tile_matmul_wgmma_specialised",
    family="tensor copies",
    source=WORDS
    + """
__device__ inline u64 described(const void* p) {  // K-major, rows of 128 swizzled bytes
    return (u64)(at(p) >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
__device__ inline void multiply(float (&d)[32], u64 a, u64 b) {
    asm volatile("{\\n.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {REGISTERS}, %32, %33, p, 1, 1, 0, 0;\\n}"
                 : BOUND : "l"(a), "l"(b));
}
extern "C" __global__ void k(const __grid_constant__ TensorMap ma, const __grid_constant__ TensorMap mb,
                             float* y, int n, int steps) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full[2], empty[2];
    int t = threadIdx.x, row = 64 * blockIdx.y, column = 64 * blockIdx.x;
    if (t == 0) {
        for (int i = 0; i < 2; ++i) { bar_init(full + i, 1); bar_init(empty + i, 128); }
        init_fence();
    }
    __syncthreads();
    if (t >= 128) {
        if (t == 128)
            for (int i = 0; i < steps; ++i) {
                unsigned char* stage = memory + (i & 1) * 16384;
                bar_wait(empty + (i & 1), (i >> 1 & 1) ^ 1);
                bar_expect(full + (i & 1), 16384);
                tile_load(stage, &ma, 64 * i, row, full + (i & 1));
                tile_load(stage + 8192, &mb, 64 * i, column, full + (i & 1));
            }
        return;
    }
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0;
    for (int i = 0; i < steps; ++i) {
        unsigned char* stage = memory + (i & 1) * 16384;
        bar_wait(full + (i & 1), i >> 1 & 1);
        PRODUCTS
        RELEASE
    }
    int r = row + t / 32 * 16 + t % 32 / 4, c = column + t % 4 * 2;
    for (int i = 0; i < 32; ++i) y[(r + (i & 2) * 4) * n + c + (i >> 2) * 8 + (i & 1)] = d[i];
}
""".replace("PRODUCTS", PRODUCTS)
    .replace("RELEASE", RELEASE)
    .replace("REGISTERS", _D)
    .replace("BOUND", _BOUND),
    make=draw(
        a=normal(64 * 200, dtype=F16),
        b=normal(128 * 200, dtype=F16),
        y=Empty(dtype=F32, size=64 * 128),
    ),
    expect=lambda m: {
        "y": (wide(m["a"]).reshape(64, 200) @ wide(m["b"]).reshape(128, 200).T).reshape(-1)
    },
    arguments=(
        Tile(buffer="a", element="f16", sizes=(200, 64), strides=(400,), box=(64, 64), swizzle=128),
        Tile(
            buffer="b", element="f16", sizes=(200, 128), strides=(400,), box=(64, 64), swizzle=128
        ),
        "y",
        i32(128),
        i32(4),
    ),
    grid=(2, 1, 1),
    block=(160, 1, 1),
    shared_bytes=32768,
    arch=ARCH,
    tolerance=1e-4,
)

MULTICAST = Kernel(
    name="tile_multicast_to_cluster",
    family="tensor copies",
    source=WORDS
    + """
extern "C" __global__ void __cluster_dims__(2) k(const __grid_constant__ TensorMap in, int* y) {
    __shared__ alignas(128) int s[2][8 * 16];
    __shared__ u64 bar;
    int t = threadIdx.x, rank = rank_of_block();
    if (t == 0) { bar_init(&bar, 1); init_fence(); bar_expect(&bar, sizeof(s)); }
    cluster_sync();
    if (t == 0) tile_share(s[rank], &in, 0, 8 * rank, &bar, 3);
    bar_wait(&bar, 0);
    for (int i = t; i < 256; i += 64) y[256 * blockIdx.x + i] = (&s[0][0])[255 - i] + rank;
    cluster_sync();
}
""",
    make=draw(x=np.arange(256, dtype=I32), y=Empty(dtype=I32, size=512)),
    expect=lambda m: {"y": np.concatenate([m["x"][::-1], m["x"][::-1] + 1])},
    arguments=(
        Tile(buffer="x", element="s32", sizes=(16, 16), strides=(64,), box=(16, 8)), "y",
    ),
    grid=(2, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)  # fmt: skip

HALO = Kernel(
    name="tile_halo_3d_reduce",
    family="tensor copies",
    source=WORDS
    + """
extern "C" __global__ void k(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    __shared__ alignas(128) int s[2 * 4 * 8];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) {
        bar_expect(&bar, sizeof(s));
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(at(s)), "l"(&in), "r"(-4), "r"(-1), "r"((int)blockIdx.x), "r"(at(&bar)) : "memory");
    }
    bar_wait(&bar, 0);
    s[t] += 1;
    proxy_fence();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                     :: "l"(&out), "r"(0), "r"(0), "r"((int)blockIdx.x), "r"(at(s)) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}
""",
    make=draw(x=np.arange(96, dtype=I32), y=np.zeros(96, dtype=I32)),
    expect=lambda m: {"y": _halo(m["x"])},
    arguments=tuple(
        Tile(buffer=name, element="s32", sizes=(8, 4, 3), strides=(32, 128), box=(8, 4, 2))
        for name in ("x", "y")
    ),
    grid=(3, 1, 1),
    block=(64, 1, 1),
    arch=ARCH,
    tolerance=0.0,
)


def _halo(x: np.ndarray) -> np.ndarray:
    """Loads begin 4 columns and a row before the tensor; plane 0 is covered once, the others twice."""
    shifted = np.zeros((3, 4, 8), dtype=np.int64)
    shifted[:, 1:, 4:] = x.reshape(3, 4, 8)[:, :3, :4]
    covered: np.ndarray = (shifted + 1) * np.array([1, 2, 2])[:, None, None]
    return covered.reshape(-1)


KERNELS = (TRANSPOSE, MATMUL, MULTICAST, HALO)
