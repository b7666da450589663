"""CUDA extensions without a GPU: host code runs, launches go to the PTX machine."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cuassay import build
from cuassay.build.cuda.hosted import prepare_headers
from cuassay.build.machine import candidates as machine
from cuassay.errors import BuildError
from cuassay.model.candidate import Candidate
from tests.support.builds import candidate, problem

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or bool(machine.missing()), reason="needs g++ and the machine"
)
# Host code of every kind that such extensions have: dispatch over types, device checks, guards,
# streams, constants, structures by value, memory of its own and tensors kept over calls.
CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#define CHECK_INPUT(x) TORCH_CHECK((x).is_cuda() && (x).device().type() == torch::kCUDA, #x)
#define THREADS 32
__constant__ float shift[1];
struct Row { const float* data; int n; };
template <typename scalar_t>
__global__ void scale(const scalar_t* __restrict__ x, scalar_t* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<scalar_t>(static_cast<float>(x[i]) * factor + shift[0]);
}
__global__ void add(Row row, float* y, const float* kept) {
  for (int i = threadIdx.x; i < row.n; i += blockDim.x) y[i] += row.data[i] + kept[0];
}
torch::Tensor run(torch::Tensor x, double factor) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(at::device_of(x));
  static torch::Tensor kept = torch::zeros({4}, x.options().dtype(torch::kFloat32));
  auto y = torch::empty_like(x, torch::TensorOptions().device(torch::kCUDA));
  const int n = x.numel();
  float zero = 0;
  C10_CUDA_CHECK(cudaMemcpyToSymbol(shift, &zero, sizeof zero));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), static_cast<float>(factor), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (x.scalar_type() == torch::kFloat32) {
    float* zeros = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&zeros, n * sizeof(float)));
    C10_CUDA_CHECK(cudaMemsetAsync(zeros, 0, n * sizeof(float), stream));
    add<<<1, 64, 0, stream>>>(Row{zeros, n}, y.data_ptr<float>(), kept.data_ptr<float>());
    C10_CUDA_CHECK(cudaFree(zeros));
  }
  return y;
}
torch::Tensor too_many(torch::Tensor x) {
  scale<float><<<1, 2048>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1.0f, 1);
  return x;
}
"""
PYTHON = """
from torch.utils.cpp_extension import load_inline
CUDA = r'''%s'''
DECLARED = ["torch::Tensor run(torch::Tensor x, double factor);",
            "torch::Tensor too_many(torch::Tensor);"]
module = load_inline("m", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run", "too_many"],
                     extra_cflags=["-O3"], extra_cuda_cflags=["--use_fast_math"], verbose=True)
def entry(x, factor):
    return module.run(x.cuda(), factor)
def limits(x, factor):
    return module.too_many(x)
"""


def inline(text: str, entry: str = "entry") -> Candidate:
    """Return a candidate of one Python file."""
    return dataclasses.replace(candidate(text, paths=("k.py",)), entry_function=entry)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the extension is built once."""
    prepare_headers()
    return tmp_path_factory.mktemp("hosted")


def loaded(folder: Path, entry: str) -> Callable[..., object]:
    """Return a function of the extension as the sandbox calls it."""
    built = build.load(inline(PYTHON % CUDA, entry), problem(), device="cpu", folder=folder)
    assert built.kind == "python+ptx-machine"
    return built.call


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_an_extension_computes_what_its_kernels_compute(folder: Path, dtype: torch.dtype) -> None:
    call = loaded(folder, "entry")
    for rows in (3, 5):  # what it keeps over calls is still known in the second
        x = torch.randn(rows, 8).to(dtype)
        torch.testing.assert_close(call(x, 3.0), x * 3)


def test_launches_are_recorded_with_their_memory_and_constants(folder: Path) -> None:
    call = loaded(folder, "entry")
    launcher = machine.current
    assert launcher is not None
    launcher.recorder.start()
    call(torch.randn(5, 8), 2.0)
    recording = launcher.recorder.recording()
    launcher.recorder.on = False
    first, second = recording.launches
    assert (first.grid, first.block) == ((2, 1, 1), (32, 1, 1))
    assert first.variables
    assert any(region.name == "x" for region in first.regions)
    assert len(second.arguments[0]) == 16
    assert any(region.name.startswith("device memory") for region in second.regions)
    assert 'k.py"' in recording.modules[0]


def test_an_error_that_nobody_asked_for_is_raised_as_on_a_gpu(folder: Path) -> None:
    call = loaded(folder, "limits")
    with pytest.raises(RuntimeError, match="CUDA error: invalid configuration argument"):
        call(torch.randn(5, 8), 2.0)


def test_a_source_that_does_not_compile_is_the_candidates_fault(tmp_path: Path) -> None:
    broken = CUDA.replace("y[i] = ", "unknown_name = ")
    with pytest.raises(BuildError) as raised:
        build.load(inline(PYTHON % broken), problem(), device="cpu", folder=tmp_path)
    assert "unknown_name" in raised.value.log
