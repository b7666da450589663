"""A kernel by itself is the kernel that the whole text has, on the same lines."""

from __future__ import annotations

import pytest

from ptxsan import nvrtc
from ptxsan.parser import parse
from ptxsan.prove.alone import alone

SOURCE = """__device__ int calls;
__device__ __noinline__ int twice(int x) { return x > 3 ? twice(x - 1) : 2 * x; }
extern "C" __global__ void first(int* y) { y[threadIdx.x] = twice(y[0]); atomicAdd(&calls, 1); }
template <int N> __global__ void scale(int* y) {
  asm volatile("{ .reg .b32 %t; mov.b32 %t, 1; } // }" ::: "memory");
  for (int i = 0; i < N; ++i) y[i] *= twice(N);
}
extern "C" __global__ void last(int* y) { y[threadIdx.x] += calls; }"""


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_a_kernel_alone_is_what_it_is_among_others() -> None:
    text, names = nvrtc.compile_named(SOURCE, ["scale<5>", "scale<40>"], arch="sm_90")
    whole = parse(text)
    assert set(whole.entries) == {"first", "last", *names.values()}
    for kernel in whole.entries:
        cut = alone(text, kernel)
        assert cut.count("\n") == text.count("\n")
        module = parse(cut)
        assert module.entries == (kernel,)
        assert module.functions[kernel] == whole.functions[kernel]
        assert module.variables == whole.variables
        others = {name for name, one in whole.functions.items() if not one.entry}
        assert all(module.functions[name] == whole.functions[name] for name in others)


def test_a_kernel_that_is_declared_alone_has_no_body() -> None:
    text = ".entry a(\n.param .u64 p\n);\n.entry b()\n{\nret;\n}\n.entry a(.param .u64 p)\n{\n}\n"
    assert alone(text, "b") == "\n\n\n.entry b()\n{\nret;\n}\n\n\n\n"
