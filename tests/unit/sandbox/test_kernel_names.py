"""Names of the kernels in a candidate's sources, by what declares them."""

from __future__ import annotations

import pytest

from cuassay.sandbox.kernel_names import kernels_of
from tests.support.builds import candidate


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__global__ void scale(float* x) {}", ("scale",)),
        ('extern "C" __global__ void __launch_bounds__(256, 2) add(int n) {}', ("add",)),
        ("template <int N> __global__ static void tiled(float* x);", ("tiled",)),
        ("__device__ void helper(int n) {} void host(int n) {}", ()),
        ("@triton.jit\ndef kernel(x):\n    pass\n", ("kernel",)),
        ("@jit\ndef short(x):\n    pass\n", ("short",)),
        ("@triton.autotune([])\n@triton.jit\n# tuned\n\ndef tuned(x): pass\n", ("tuned",)),
        ("    @triton.jit\n    def inner(x): pass\n", ("inner",)),
        ("@triton.jit\nX = 1\ndef plain(x): pass\n", ()),
        ("def run(x):\n    return x\n", ()),
        ("@triton.jit\ndef twice(x): pass\n__global__ void twice(int n) {}", ("twice",)),
    ],
)
def test_kernels_are_found_by_what_declares_them(text: str, names: tuple[str, ...]) -> None:
    assert kernels_of(candidate(text)) == names


def test_kernels_of_all_sources_come_in_their_order() -> None:
    made = candidate(
        "@triton.jit\ndef first(x): pass\n",
        "__global__ void second(int n) {}",
        paths=("kernel.py", "kernel.cu"),
    )
    assert kernels_of(made) == ("first", "second")
