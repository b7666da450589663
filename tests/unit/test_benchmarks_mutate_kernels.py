"""Faults are planted in a kernel of ours as they are in others: one a mutant, at its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.support.benchmark_modules import loaded

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def norm(x_ptr, y_ptr, bias_ptr, rows, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < cols
        x = tl.load(x_ptr + row * stride + at, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x * x)
    y = x * tl.rsqrt(total / cols + 1e-6) + bias
    tl.atomic_add(y_ptr + row * stride + at, tl.maximum(y, 0.25), mask=mask)


def run(x, bias):
    rows, cols = x.shape
    y = torch.zeros_like(x)
    norm[(rows, triton.cdiv(cols, 128))](x.contiguous(), y, bias, rows, cols, x.stride(0), 128)
    return y
"""
CUDA = """
// if (i >= n) return; fmaxf(
__global__ void f(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __syncthreads();
  atomicAdd(&y[i], fmaxf(x[i], 0.0f));
}
"""


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Load the benchmark anew."""
    yield from loaded(monkeypatch, "mutate_kernels", "kernel_sets", "common")


def mutants(mutate: ModuleType) -> dict[str, list[str]]:
    source = mutate.Source(
        text=KERNEL, tree=ast.parse(KERNEL), entry="run", sizes={"x": [512, None], "bias": [None]}
    )
    found: dict[str, list[str]] = mutate.python_mutants(source)
    return found


def test_every_kind_of_fault_finds_its_place(mutate: ModuleType) -> None:
    found = mutants(mutate)
    missing = {kind for kind, texts in found.items() if not texts}
    assert missing == {"sign_turned"}  # the kernel subtracts nothing
    assert len(found) == len(mutate.PYTHON)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("epsilon_larger", "cols + 0.0001)"),
        ("load_mask_dropped", "tl.load(x_ptr + row * stride + at).to"),
        ("term_dropped", "tl.rsqrt(total / cols + 1e-6)\n"),
        ("sum_in_bfloat16", "total = (total + tl.sum(x * x)).to(tl.bfloat16).to(tl.float32)"),
        ("grid_rounded_down", "max((cols) // (128), 1)"),
        ("size_fixed", "\n    rows = 512\n"),
        ("atomic_plain", "tl.store(y_ptr + row * stride + at, tl.load("),
        ("last_tile_dropped", "range(0, cols // BLOCK * BLOCK, BLOCK)"),
        ("target_unset", "torch.empty_like(x)"),
        ("widening_dropped", "other=0.0)\n        total"),
    ],
)
def test_a_fault_stands_where_it_was_planted(mutate: ModuleType, kind: str, words: str) -> None:
    texts = mutants(mutate)[kind]
    assert any(words in text for text in texts)
    assert all(text != KERNEL for text in texts)


def test_comments_of_cuda_are_left_alone(mutate: ModuleType) -> None:
    found = mutate.cuda_mutants(CUDA)
    assert len(found["bound_inclusive"]) == 1
    assert len(found["extreme_swapped"]) == 1
    assert "if (i > n) return;" in found["bound_inclusive"][0]
    assert "*(&y[i]) += (fmaxf(x[i], 0.0f));" in found["atomic_plain"][0]
    assert mutate.cuda_mutants("x = fmaxf(") == {}
