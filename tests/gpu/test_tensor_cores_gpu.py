"""What a tensor core makes of a product that is zero: has it an exponent in the sum?

The machine gives it none. MMA-Sim gives a zero the exponent of a subnormal number, so that zero
times 2^127 stands above small terms and cuts them. The two differ where nothing else is as large.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from ptxsan.numerics.dot import instruction_rule
from ptxsan.numerics.formats import BF16, F32, TF32
from ptxsan.runtime.matrix import product

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed"),
]
# Row 0 of A has 2^-20, 2^-40 and, where `large`, 2^127, which meets the zero of B's column.
_SOURCE = r"""
#include <cstdio>
#include <cstring>
__global__ void tf32(unsigned large, float* out) {
  unsigned t = threadIdx.x % 4, one = 0x3f800000u, a = t == 0 ? large : t == 1 ? 0x35800000u :
    t == 2 ? 0x2b800000u : 0u, b = t == 0 ? 0u : one, zero = 0;
  float d0, d1, d2, d3, c = 0;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%6},"
    " {%7,%6}, {%8,%8,%8,%8};" : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
    : "r"(a), "r"(a), "r"(zero), "r"(b), "f"(c));
  if (threadIdx.x == 0) *out = d0;
}
__global__ void bf16(unsigned large, float* out) {
  unsigned t = threadIdx.x % 4, zero = 0;
  unsigned a = t == 0 ? large >> 16 : t == 1 ? 0x3580u : t == 2 ? 0x2b80u : 0u;
  unsigned b = t == 0 ? 0u : 0x3f80u;
  float d0, d1, d2, d3, c = 0;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},"
    " {%4,%5,%6,%6}, {%7,%6}, {%8,%8,%8,%8};" : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
    : "r"(a), "r"(a), "r"(zero), "r"(b), "f"(c));
  if (threadIdx.x == 0) *out = d0;
}
int main() {
  float* out; unsigned bits;
  cudaMallocManaged(&out, 4);
  for (int kernel = 0; kernel < 2; ++kernel)
    for (unsigned large : {0u, 0x7f000000u}) {
      if (kernel == 0) tf32<<<1, 32>>>(large, out); else bf16<<<1, 32>>>(large, out);
      if (cudaDeviceSynchronize() != cudaSuccess) return 1;
      memcpy(&bits, out, 4);
      printf("%s %08x %08x\n", kernel ? "bf16" : "tf32", large, bits);
    }
}
"""


def _here(kind: int, size: int, depth: int, large: int) -> int:
    """Return the machine's code of the same element."""
    rule = instruction_rule(90, size, depth)
    shift = 0 if kind == TF32.index else 16
    a, b = np.zeros((1, depth), np.int64), np.zeros((1, depth, 8), np.int64)
    a[0, :3] = [large >> shift, 0x35800000 >> shift, 0x2B800000 >> shift]
    b[0, 1:3, 0] = 0x3F800000 >> shift
    result = np.zeros((1, 1, 8), np.int64)
    values = np.empty(a.shape), np.empty(b.shape)
    sums = rule.block, rule.fraction_bits
    product(a, b, result, (kind, kind, F32.index), sums, rule.halves, values)
    return int(result[0, 0, 0])


def test_a_product_that_is_zero_cuts_nothing(tmp_path: Path) -> None:
    source, program = tmp_path / "zeros.cu", tmp_path / "zeros"
    source.write_text(_SOURCE)
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    subprocess.run(["nvcc", f"-arch={arch}", "-o", str(program), str(source)], check=True)
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    said = [line.split() for line in done.stdout.splitlines()]
    expected = [
        [name, f"{large:08x}", f"{_here(kind, size, depth, large):08x}"]
        for name, kind, size, depth in (("tf32", TF32.index, 4, 8), ("bf16", BF16.index, 2, 16))
        for large in (0, 0x7F000000)
    ]
    assert said == expected
