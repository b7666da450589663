"""Speed of the PTX machine: lane-instructions a second by kind of kernel, compile times, memory.

    python benchmarks/machine_speed.py [--threads N]

Kernels are CUDA C++ compiled by NVRTC (no GPU). "everything" means bounds, initialisation, races
and float64 shadows; an instruction counts once for each lane that executes it. The first run of a
process also loads the machine's runtime; on a machine that never ran it, that is compiled (once).
The result goes to benchmarks/results/machine-speed-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import RESULTS, machine

from cuassay.build.cuda.nvrtc import compile_ptx
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

_SOURCE = r"""
#include <cuda_bf16.h>
#include <mma.h>
extern "C" __global__ void softmax(const float* x, float* y, int n) {
    __shared__ float part[8];
    const float* row = x + (long long)blockIdx.x * n;
    float m = -1e30f, s = 0;
    for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
    __syncthreads();
    for (int w = 0; w < 8; ++w) m = fmaxf(m, part[w]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) s += __expf(row[i] - m);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int w = 0; w < 8; ++w) s += part[w];
    float* to = y + (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += 256) to[i] = __expf(row[i] - m) / s;
}
extern "C" __global__ void rmsnorm_backward(
    const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* dy, __nv_bfloat16* dx,
    float* dw, int n) {
    __shared__ float a[8], b[8];
    long long at = (long long)blockIdx.x * n;
    float ss = 0, dot = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        float v = __bfloat162float(x[at + i]), g = __bfloat162float(dy[at + i]);
        ss += v * v;
        dot += g * __bfloat162float(w[i]) * v;
    }
    for (int d = 16; d; d >>= 1) {
        ss += __shfl_xor_sync(~0u, ss, d);
        dot += __shfl_xor_sync(~0u, dot, d);
    }
    if (threadIdx.x % 32 == 0) a[threadIdx.x / 32] = ss, b[threadIdx.x / 32] = dot;
    __syncthreads();
    ss = dot = 0;
    for (int k = 0; k < 8; ++k) ss += a[k], dot += b[k];
    float r = rsqrtf(ss / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += 256) {
        float v = __bfloat162float(x[at + i]), g = __bfloat162float(dy[at + i]);
        float gw = g * __bfloat162float(w[i]);
        dx[at + i] = __float2bfloat16(r * (gw - v * r * r * dot / n));
        atomicAdd(dw + i, g * v * r);
    }
}
extern "C" __global__ void matmul_tiled(const float* x, const float* y, float* z, int n) {
    __shared__ float s[16][16], t[16][16];
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        s[threadIdx.y][threadIdx.x] = x[i * n + k + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = y[(k + threadIdx.y) * n + j];
        __syncthreads();
        for (int q = 0; q < 16; ++q) sum += s[threadIdx.y][q] * t[q][threadIdx.x];
        __syncthreads();
    }
    z[i * n + j] = sum;
}
extern "C" __global__ void hash_rounds(const unsigned* x, unsigned* y, int n) {
    unsigned v = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < n; ++i) { v ^= v << 13; v ^= v >> 17; v ^= v << 5; v = v * 1664525u + i; }
    y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
using namespace nvcuda;
extern "C" __global__ void wmma_gemm(
    const __nv_bfloat16* x, const __nv_bfloat16* y, float* z, int n) {
    int warp = threadIdx.x / 32, i = blockIdx.y * 16, j = (blockIdx.x * 4 + warp) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(a, x + i * n + k, n);
        wmma::load_matrix_sync(b, y + k * n + j, n);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(z + i * n + j, c, n, wmma::mem_row_major);
}
"""


def _f32(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.standard_normal(count).astype(np.float32)


def _bf16(rng: np.random.Generator, count: int) -> np.ndarray:
    return (rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _pointer(name: str, data: np.ndarray) -> Pointer:
    return Pointer(buffer=Buffer(name=name, data=data.view(np.uint8)))


def _launch(kernel: str, grid: tuple[int, ...], block: tuple[int, ...], *given: Any) -> Launch:
    arguments: list[Argument] = [
        struct.pack("<i", one) if isinstance(one, int) else _pointer(f"p{index}", one)
        for index, one in enumerate(given)
    ]
    wide = [(*dims, 1, 1)[:3] for dims in (grid, block)]
    return Launch(
        kernel=kernel,
        grid=(wide[0][0], wide[0][1], wide[0][2]),
        block=(wide[1][0], wide[1][1], wide[1][2]),
        arguments=tuple(arguments),
    )


def _kernels() -> dict[str, Callable[[], Launch]]:
    rng = np.random.default_rng(0)
    return {
        "softmax f32 256x1024": lambda: _launch(
            "softmax", (256,), (256,), _f32(rng, 1 << 18), np.zeros(1 << 18, np.float32), 1024
        ),
        "rmsnorm backward bf16 64x1024": lambda: _launch(
            "rmsnorm_backward", (64,), (256,), _bf16(rng, 1 << 16), _bf16(rng, 1024),
            _bf16(rng, 1 << 16), np.zeros(1 << 16, np.uint16), np.zeros(1024, np.float32), 1024,
        ),
        "matmul tiled f32 128^3": lambda: _launch(
            "matmul_tiled", (8, 8), (16, 16), _f32(rng, 1 << 14), _f32(rng, 1 << 14),
            np.zeros(1 << 14, np.float32), 128,
        ),
        "integer rounds, no memory": lambda: _launch(
            "hash_rounds", (64,), (256,), rng.integers(0, 1 << 31, 1 << 14, dtype=np.uint32),
            np.zeros(1 << 14, np.uint32), 64,
        ),
        "wmma bf16 256^3": lambda: _launch(
            "wmma_gemm", (4, 16), (128,), _bf16(rng, 1 << 16), _bf16(rng, 1 << 16),
            np.zeros(1 << 16, np.float32), 256,
        ),
    }  # fmt: skip


def _measure(module: Any, make: Callable[[], Launch], options: Options) -> dict[str, Any]:
    first = run(module, make(), options=options)
    best, cpu = float("inf"), float("inf")
    for _ in range(3):
        launch, used = make(), time.process_time()
        report = run(module, launch, options=options)
        if report.statistics.run_s < best:
            best, cpu = report.statistics.run_s, time.process_time() - used
    statistics = report.statistics
    assert report.inconclusive is None, report.inconclusive
    return {
        "lane_instructions": statistics.lane_instructions,
        "compile_s": round(first.statistics.compile_s, 3),
        "run_s": round(best, 4),
        "cpu_s": round(cpu, 4),
        "lane_instructions_per_s": round(statistics.lane_instructions / best),
        "lane_instructions_per_cpu_s": round(statistics.lane_instructions / cpu),
        "state_bytes_per_byte": round(statistics.state_bytes / statistics.kernel_bytes, 2),
        "findings": [one.text for one in report.wrong],
    }


def main() -> None:
    """Measure every kernel with everything on and with memory checks alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    module = parse(compile_ptx(_SOURCE, arch="sm_80", name="speed.cu"))
    found: dict[str, Any] = {
        "machine": machine(),
        "host_threads": threads,
        "load_average_at_start": os.getloadavg()[0],  # other work on the machine: see the CPU rates
        "kernels": {},
    }
    for name, make in _kernels().items():
        everything = _measure(module, make, Options(workers=threads))
        bare = _measure(module, make, Options(workers=threads, shadow=False, races=False))
        found["kernels"][name] = {"everything": everything, "bounds and init": bare}
        rate = everything["lane_instructions_per_s"] / 1e6
        print(f"{name}: {rate:.0f} M lane-instructions/s, {everything['run_s']} s", flush=True)
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(found, indent=1) + "\n"
    (RESULTS / "machine-speed-cpu.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
