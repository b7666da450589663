"""Reductions, norms, softmax, losses: shuffles, shared memory, barriers, last-block sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxsan_corpus.case import (
    BF16,
    F16,
    F32,
    I32,
    Array,
    Empty,
    Kernel,
    draw,
    i32,
    normal,
    wide,
)

TYPES: dict[str, np.dtype[Any]] = {"float": F32, "__half": F16, "__nv_bfloat16": BF16}
WARP_SUM = """
__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
"""
BLOCK_SUM = (
    WARP_SUM
    + """
__device__ float block_sum(float v) {
    __shared__ float part[32];
    __shared__ float total;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) / 32;
    v = warp_sum(v);
    if (lane == 0) part[warp] = v;
    __syncthreads();
    if (warp == 0) {
        float s = lane < warps ? part[lane] : 0.0f;
        s = warp_sum(s);
        if (lane == 0) total = s;
    }
    __syncthreads();
    return total;
}
"""
)


def _rows(rows: int, columns: int, dtype: np.dtype) -> dict[str, Callable[..., Array]]:
    return {"x": normal(rows * columns, dtype=dtype)}


def _tolerance(dtype: np.dtype) -> float:
    return 2e-5 if dtype.itemsize == 4 else 1e-2


def row_kernel(
    name: str,
    type_: str,
    body: str,
    expect: Callable[[Array], Array],
    *,
    rows: int = 5,
    columns: int = 300,
    block: int = 128,
    family: str = "norm",
) -> Kernel:
    """Return a kernel of one block a row: `body` computes y from x with n columns."""
    dtype = TYPES[type_]
    return Kernel(
        name=f"{name}_{dtype.name}_{columns}",
        family=family,
        source=BLOCK_SUM
        + f"""
extern "C" __global__ void k(const {type_}* in, {type_}* out, int n) {{
    const {type_}* x = in + (long long)blockIdx.x * n;
    {type_}* y = out + (long long)blockIdx.x * n;
{body}
}}
""",
        make=draw(x=normal(rows * columns, dtype=dtype), y=Empty(dtype=dtype, size=rows * columns)),
        expect=lambda m: {"y": expect(wide(m["x"]).reshape(rows, columns)).reshape(-1)},
        arguments=("x", "y", i32(columns)),
        grid=(rows, 1, 1),
        block=(block, 1, 1),
        tolerance=_tolerance(dtype),
    )


RMS = """    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += (float)x[i] * (float)x[i];
    float r = rsqrtf(block_sum(s) / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = (float)x[i] * r;"""
LAYER = """    float s = 0, q = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += (float)x[i];
    float mean = block_sum(s) / n;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) q += ((float)x[i] - mean) * ((float)x[i] - mean);
    float r = rsqrtf(block_sum(q) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = ((float)x[i] - mean) * r;"""
SOFTMAX = """    __shared__ float worst[32];
    float m = -INFINITY, s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, (float)x[i]);
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (threadIdx.x % 32 == 0) worst[threadIdx.x / 32] = m;
    __syncthreads();
    for (int w = 0; w < (blockDim.x + 31) / 32; ++w) m = fmaxf(m, worst[w]);
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf((float)x[i] - m);
    float z = block_sum(s);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf((float)x[i] - m) / z;"""


def rms(x: Array) -> Array:
    """RMS norm of rows."""
    return np.asarray(x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6))


def layer(x: Array) -> Array:
    """Layer norm of rows."""
    return np.asarray((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5))


def softmax(x: Array) -> Array:
    """Softmax of rows."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


TREE = Kernel(
    name="tree_reduction",
    family="reduction",
    source="""
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 128; d > 0; d >>= 1) {
        if (t < d) part[t] += part[t + d];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = part[0];
}
""",
    make=draw(x=normal(1000), y=Empty(dtype=F32, size=4)),
    expect=lambda m: {"y": np.pad(wide(m["x"]), (0, 24)).reshape(4, 256).sum(1)},
    arguments=("x", "y", i32(1000)),
    grid=(4, 1, 1),
    block=(256, 1, 1),
)

WARP_SYNCHRONOUS = Kernel(
    name="warp_tail_with_syncwarp",
    family="reduction",
    source="""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        float v = part[t] + part[t + 32];
        __syncwarp();
        part[t] = v;
        for (int d = 16; d > 0; d >>= 1) {
            __syncwarp();
            v = part[t] + (t < d ? part[t + d] : 0.0f);
            __syncwarp();
            part[t] = v;
        }
        __syncwarp();
        if (t == 0) y[blockIdx.x] = part[0];
    }
}
""",
    make=draw(x=normal(192), y=Empty(dtype=F32, size=3)),
    expect=lambda m: {"y": wide(m["x"]).reshape(3, 64).sum(1)},
    arguments=("x", "y"),
    grid=(3, 1, 1),
    block=(64, 1, 1),
)

LAST_BLOCK = Kernel(
    name="last_block_sum",
    family="reduction",
    source=BLOCK_SUM
    + """
extern "C" __global__ void k(const float* x, float* part, unsigned* ticket, float* y, int n) {
    __shared__ bool last;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = block_sum(i < n ? x[i] : 0.0f);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        float v = threadIdx.x < gridDim.x ? ((volatile float*)part)[threadIdx.x] : 0.0f;
        v = block_sum(v);
        if (threadIdx.x == 0) *y = v;
    }
}
""",
    make=draw(
        x=normal(1000),
        part=Empty(dtype=F32, size=8),
        ticket=np.zeros(1, dtype=np.uint32),
        y=Empty(dtype=F32, size=1),
    ),
    expect=lambda m: {"y": wide(m["x"]).sum().reshape(1)},
    arguments=("x", "part", "ticket", "y", i32(1000)),
    grid=(8, 1, 1),
    block=(128, 1, 1),
    tolerance=1e-4,
)

ATOMIC_SUM = Kernel(
    name="warp_then_atomic_sum",
    family="atomics",
    source=WARP_SUM
    + """
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = warp_sum(i < n ? x[i] : 0.0f);
    if ((threadIdx.x & 31) == 0) atomicAdd(y, s);
}
""",
    make=draw(x=normal(1000), y=np.zeros(1, dtype=np.float32)),
    expect=lambda m: {"y": wide(m["x"]).sum().reshape(1)},
    arguments=("x", "y", i32(1000)),
    grid=(8, 1, 1),
    block=(128, 1, 1),
    tolerance=1e-4,
)

ARGMAX = Kernel(
    name="argmax_rows",
    family="reduction",
    source="""
extern "C" __global__ void k(const float* x, int* y, int n) {
    float best = -INFINITY;
    int at = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = x[blockIdx.x * n + i];
        if (v > best) { best = v; at = i; }
    }
    for (int d = 16; d > 0; d >>= 1) {
        float other = __shfl_down_sync(0xffffffffu, best, d);
        int where = __shfl_down_sync(0xffffffffu, at, d);
        if (other > best || (other == best && where < at)) { best = other; at = where; }
    }
    if (threadIdx.x == 0) y[blockIdx.x] = at;
}
""",
    make=draw(x=normal(7 * 133), y=Empty(dtype=I32, size=7)),
    expect=lambda m: {"y": m["x"].reshape(7, 133).argmax(1)},
    arguments=("x", "y", i32(133)),
    grid=(7, 1, 1),
    tolerance=0.0,
)

REDUX = Kernel(
    name="redux_votes_and_match",
    family="reduction",
    source="""
extern "C" __global__ void k(const int* x, int* y) {
    int v = x[threadIdx.x];
    y[threadIdx.x] = __reduce_add_sync(0xffffffffu, v);
    y[32 + threadIdx.x] = __popc(__ballot_sync(0xffffffffu, v > 3));
    y[64 + threadIdx.x] = __popc(__match_any_sync(0xffffffffu, v));
    y[96 + threadIdx.x] = __any_sync(0xffffffffu, v == 9) + 2 * __all_sync(0xffffffffu, v >= 0);
}
""",
    make=draw(x=lambda rng: rng.integers(0, 9, 32).astype(np.int32), y=Empty(dtype=I32, size=128)),
    expect=lambda m: {
        "y": np.concatenate(
            [
                np.full(32, m["x"].sum()),
                np.full(32, (m["x"] > 3).sum()),
                (m["x"][:, None] == m["x"][None]).sum(1),
                np.full(32, 2),
            ]
        )
    },
    arguments=("x", "y"),
    tolerance=0.0,
)

KERNELS = (
    *(row_kernel("rmsnorm", t, RMS, rms) for t in TYPES),
    *(row_kernel("layernorm", t, LAYER, layer) for t in TYPES),
    *(row_kernel("softmax", t, SOFTMAX, softmax, family="softmax") for t in TYPES),
    row_kernel("rmsnorm", "float", RMS, rms, columns=77, block=96),
    row_kernel("softmax", "float", SOFTMAX, softmax, columns=33, block=64, family="softmax"),
    TREE,
    WARP_SYNCHRONOUS,
    LAST_BLOCK,
    ATOMIC_SUM,
    ARGMAX,
    REDUX,
)
