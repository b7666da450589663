"""Faults of what PTX calls by other names: state spaces, loads that trust memory, parameters; and
of places that data chooses.

Most were proved absent once. A fault is a safe kernel with one text replaced, as in
`planted_proofs`.
"""

from __future__ import annotations

from ptxsan.prove.machine import AxisDomain
from ptxsan_support.planting import Expected, Fault, Planted
from ptxsan_support.proofs import Subject, subject_of, up

TWINS: tuple[Subject, ...] = (
    subject_of(
        "a shared value by its generic address",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.f;
  unsigned long long at;
  asm volatile("mov.u64 %0, %1;" : "=l"(at) : "l"(&s[0]));
  __syncthreads();
  float v;
  asm volatile("ld.f32 %0, [%1];" : "=f"(v) : "l"(&s[127 - threadIdx.x]) : "memory");
  if (i < n) y[i + (at & 3)] = v;
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "global values by their addresses",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) {
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + i));
    asm volatile("st.f32 [%0], %1;" :: "l"(y + i), "f"(v));
  }
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "constants of the module",
        """__constant__ float scale[128];
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  float v = scale[threadIdx.x];
  if (i < n) y[i] = x[i] * v;
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
    subject_of(
        "an output that is read again",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) {
    float v;
    y[i] = x[i];
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(y + i) : "memory");
    y[i] = v * 2.f;
  }
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n", unwritten=(1,),
    ),
    subject_of(
        "a block's row by way of global memory",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  y[i] = x[i < n ? i : 0];
  __syncthreads();
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v)
               : "l"(y + (blockIdx.x * 128 + 127 - threadIdx.x)) : "memory");
  __syncthreads();
  y[i] = v;
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:512*up(n,128) i:n", "n",
    ),
    subject_of(
        "a copy of four at once, with a policy",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ __align__(16) float s[512];
  int i = blockIdx.x * 128 + threadIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[4 * threadIdx.x]);
  if (4 * i + 3 < n)
    asm volatile("{ .reg .b64 policy; mov.b64 policy, 0;\\n"
                 "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, policy; }"
                 :: "r"(to), "l"(x + 4 * i));
  asm volatile("cp.async.wait_all;");
  if (i < n) y[i] = 1.f;
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
        n=AxisDomain(low=1, high=1 << 28),
    ),
    subject_of(
        "a word of a parameter",
        """extern "C" __global__ void k(const float* x, float* y, long long words, int n) {
  int i = blockIdx.x * 128 + threadIdx.x, word;
  long long at = 4 * (i % 2);
  asm volatile("{ .reg .b64 from; mov.b64 from, k_param_2; add.s64 from, from, %1;\\n"
               "ld.param.u32 %0, [from]; }" : "=r"(word) : "l"(at));
  if (i < n) y[i] = word;
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n l:n i:n", "n",
    ),
    subject_of(
        "a place that a float chooses",
        """extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = 1.f;
  __syncthreads();
  if (i < n) y[i] = s[x[i] > 0.f ? (threadIdx.x ^ 3) : (threadIdx.x ^ 66)];
}""",
        "n", lambda s: up(s["n"], 128), 128, "p:4*n p:4*n i:n", "n",
    ),
)  # fmt: skip

_M, _R, _I = Expected.MEMORY, Expected.RACES, Expected.INITIALIZED
FAULTS: tuple[Planted, ...] = (
    Planted("a shared value", (
        Fault("the shared address itself", _M, '"l"(&s[127 - threadIdx.x])',
              '"l"(__cvta_generic_to_shared(&s[127 - threadIdx.x]))',
              '"l"((const float*)s + (127 - threadIdx.x))'),
        Fault("as global memory", _M, "ld.f32", "ld.global.f32", "ld.volatile.f32"),
        Fault("under a large address", _M, "(at & 3)", "(at > 1048576)", "(at % 4)"),
        Fault("under an address of zero", _M, "(at & 3)",
              "((at & 0xFFFFFF) >= 1024 && (at & 0xFFFFFF) < 4096)", "(at % 2)"),
    )),
    Planted("global values", (
        Fault("as shared memory", _M, "ld.global.f32", "ld.shared.f32", "ld.volatile.global.f32"),
        Fault("as the thread's own", _M, "st.f32", "st.local.f32", "st.global.f32"),
    )),
    Planted("constants", (
        Fault("a constant is written", _M, "float v = scale[threadIdx.x]",
              'float v = 2.f; asm volatile("st.f32 [%0], %1;" :: "l"(&scale[threadIdx.x]), "f"(v))',
              'float v; asm volatile("ld.f32 %0, [%1];" : "=f"(v) : "l"(&scale[threadIdx.x]))'),
    )),
    Planted("an output", (
        Fault("by a load that trusts memory", _I, "ld.global.f32", "ld.global.nc.f32",
              "ld.volatile.global.f32"),
        Fault("by a load that finds what was there", _R, "ld.global.f32", "ld.global.nc.f32",
              "ld.relaxed.gpu.global.f32"),
        Fault("after it is discarded", _I, "    asm volatile(",
              '    asm volatile("discard.global.L2 [%0], 128;" :: "l"(y));\n    asm volatile(',
              '    asm volatile("prefetch.global.L2 [%0];" :: "l"(y));\n    asm volatile('),
    )),
    Planted("a block's row", (
        Fault("by a load that no barrier orders", _R, "ld.global.f32", "ld.global.nc.f32",
              "ld.volatile.global.f32"),
    )),
    Planted("a copy of four", (
        Fault("beyond the last", _M, "4 * i + 3 < n", "4 * i < n", "4 * i < n - 3"),
    )),
    Planted("a place that", (
        Fault("beyond, under some values", _M, "^ 66", "^ 130", "^ 5"),
        Fault("one place of two threads", _R, "s[threadIdx.x] = 1.f",
              "s[x[i < n ? i : 0] > 0.f ? threadIdx.x : threadIdx.x ^ 1] = 1.f",
              "s[threadIdx.x ^ (n & 1)] = 1.f"),
        Fault("a place that nobody may have written", _I, "s[threadIdx.x] = 1.f",
              "s[x[i < n ? i : 0] > 0.f ? threadIdx.x : threadIdx.x ^ 1] = 1.f",
              "s[threadIdx.x ^ 1] = x[i < n ? i : 0] > 0.f ? 2.f : 1.f"),
    )),
    Planted("a word of", (
        Fault("of the next parameter", _M, "i % 2", "i % 3", "i & 1"),
    )),
)  # fmt: skip
