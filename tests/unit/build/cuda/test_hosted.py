"""CUDA extensions without a GPU: host code runs, launches go to the PTX machine."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cuassay import build
from cuassay.build import unavailable
from cuassay.build.cuda.hosted import HostedUnit, build_hosted, prepare_headers
from cuassay.build.machine import candidates as machine
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import BuildFlags, Candidate
from cuassay.model.device import CPU
from ptxsan.errors import CompileError
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
template <typename T> C10_HOST_DEVICE static constexpr T once = T(1);
struct Shifted {
  C10_DEVICE C10_ALWAYS_INLINE static float by(float x) { return x * once<float>; }
};
template <typename scalar_t>
__global__ void scale(const scalar_t* __restrict__ x, scalar_t* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<scalar_t>(static_cast<float>(x[i]) * factor + Shifted::by(*shift));
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
    built = build.load(inline(PYTHON % CUDA, entry), problem(), device=CPU, folder=folder)
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


def test_a_name_that_nothing_declares_is_the_candidates_fault(tmp_path: Path) -> None:
    broken = CUDA.replace("y[i] = ", "no_such_thing_anywhere = ")
    with pytest.raises(BuildError) as raised:
        build.load(inline(PYTHON % broken), problem(), device=CPU, folder=tmp_path)
    assert "no_such_thing_anywhere" in raised.value.log


SMALL = r"""
#include <torch/extension.h>
extern "C" int cublasCreate_v2(void*);
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int blocks = max(1, min(65535, (int(x.numel()) + 31) / 32));
  twice<<<blocks, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
FALLS_BACK = """
from torch.utils.cpp_extension import load_inline
CUDA = r'''%s'''
try:
    module = load_inline("m", cpp_sources="torch::Tensor run(torch::Tensor x);", functions=["run"],
                         cuda_sources=CUDA, with_cuda=True)
except Exception:
    module = None
def entry(x):
    return module.run(x) if module is not None else x * 2
"""
FROM_FILES = """
import pathlib
from torch.utils.cpp_extension import load
here = pathlib.Path(__file__).parent
module = load("files", [str(here / "kernel.cu")], extra_cuda_cflags=["-O3"], verbose=True)
def entry(x):
    return module.run(x)
"""
BEYOND_US = {
    "getCurrentCUDABlasHandle": ("return y;", "at::cuda::getCurrentCUDABlasHandle(); return y;"),
    "cuBLAS (cublasCreate_v2)": ("return y;", "return cublasCreate_v2(nullptr) ? y : x;"),
}


def test_options_that_change_nothing_are_taken(folder: Path) -> None:
    call = build.load(inline(FALLS_BACK % SMALL), problem(), device=CPU, folder=folder).call
    launcher = machine.current
    assert launcher is not None
    launcher.recorder.start()
    torch.testing.assert_close(call(torch.ones(5)), torch.full((5,), 2.0))
    assert len(launcher.recorder.recording().launches) == 1
    launcher.recorder.on = False


@pytest.mark.parametrize("what", BEYOND_US)
def test_what_the_cpu_runtime_lacks_is_never_the_candidates_fault(
    folder: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unavailable, "_noted", [])
    text = FALLS_BACK % SMALL.replace(*BEYOND_US[what])
    call = build.load(inline(text), problem(), device=CPU, folder=tmp_path).call
    with pytest.raises(MissingToolError, match="went on without its kernels") as raised:
        call(torch.ones(5))
    assert what in str(raised.value)


HOST_ONLY = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda());
  return x.mul(2);
}
"""


@pytest.mark.parametrize("empty", ["''", "[]", "None"])
def test_host_code_alone_is_built_where_it_asks_for_a_gpu(folder: Path, empty: str) -> None:
    text = (FALLS_BACK % SMALL).replace(
        "cuda_sources=CUDA, with_cuda=True", f"cuda_sources={empty}"
    )
    text = text.replace('"torch::Tensor run(torch::Tensor x);"', f"r'''{HOST_ONLY}'''")
    text = text.replace("except Exception:", "except ZeroDivisionError:")
    call = build.load(inline(text), problem(), device=CPU, folder=folder).call
    torch.testing.assert_close(call(torch.ones(5)), torch.full((5,), 2.0))
    launched = text.replace("return x.mul(2);", "twice<<<1, 2>>>(x); return x.mul(2);")
    with pytest.raises(BuildError, match="belong in cuda_sources"):
        build.load(inline(launched), problem(), device=CPU, folder=folder)


BLAS = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void nothing() {}
torch::Tensor run(torch::Tensor x, torch::Tensor w, int lead, int wide) {  // x @ w.T + 1
  const int n = x.size(0), k = x.size(1), m = w.size(0);
  auto y = torch::ones({n, m}, x.options());
  cublasHandle_t handle, shared = at::cuda::getCurrentCUDABlasHandle();
  TORCH_CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  cublasSetStream(handle, at::cuda::getCurrentCUDAStream());
  const float one = 1.0f;
  const __half half = __float2half(1.0f);
  auto data = [](torch::Tensor t) { return static_cast<__half*>(t.data_ptr()); };
  auto status = wide == 2
      ? cublasHgemm(shared, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &half, data(w), lead, data(x), k,
                    &half, data(y), m)
      : wide == 3
      ? cublasGemmEx(shared, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w.data_ptr(), CUDA_R_16F,
                     lead, x.data_ptr(), CUDA_R_16F, k, &one, y.data_ptr(), CUDA_R_16F, m,
                     CUDA_R_32F, CUBLAS_GEMM_DFALT)
      : wide
      ? cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w.data_ptr(), CUDA_R_16F,
                     lead, x.data_ptr(), CUDA_R_16F, k, &one, y.data_ptr(), CUDA_R_16F, m,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP)
      : cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w.data_ptr<float>(), lead,
                    x.data_ptr<float>(), k, &one, y.data_ptr<float>(), m);
  cublasDestroy(handle);
  return status == CUBLAS_STATUS_SUCCESS ? y : y.mul(status);
}
"""


def test_cublas_multiplies_matrices_and_refuses_what_it_refuses(folder: Path) -> None:
    text = FALLS_BACK % BLAS
    text = text.replace("torch::Tensor run(torch::Tensor x);",
                        "torch::Tensor run(torch::Tensor, torch::Tensor, int, int);")  # fmt: skip
    text = text.replace("def entry(x):", "def entry(x, w, lead, wide):")
    text = text.replace("module.run(x) if module is not None else x * 2",
                        "module.run(x, w, lead, wide)")  # fmt: skip
    call = build.load(inline(text), problem(), device=CPU, folder=folder).call
    x, w = torch.randn(3, 5), torch.randn(4, 5)
    torch.testing.assert_close(call(x, w, 5, 0), x @ w.T + 1)
    right = (x.half().float() @ w.half().float().T + 1).half()
    for function in (1, 2, 3):
        torch.testing.assert_close(call(x.half(), w.half(), 5, function), right)
    torch.testing.assert_close(call(x, w, 4, 0), torch.full((3, 4), 7.0))  # a lead below k


WRITTEN = r"""
#include <torch/extension.h>
__global__ void more(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += 1.0f;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  HOW;
  more<<<1, 32>>>(y.data_ptr<float>(), x.numel());
  return y;
}
"""


@pytest.mark.parametrize("how", ["y.copy_(x)", "at::mul_out(y, x, x)", "y.zero_()", ""])
def test_what_torch_wrote_is_written(folder: Path, how: str) -> None:
    text = FALLS_BACK % WRITTEN.replace("HOW", how)
    call = build.load(inline(text), problem(), device=CPU, folder=folder).call
    launcher = machine.current
    assert launcher is not None
    launcher.recorder.start()
    call(torch.ones(5))
    launch = launcher.recorder.recording().launches[0]
    launcher.recorder.on = False
    assert bool(launch.written) == (not how)  # which bytes are written, where some are not


def test_load_builds_files_of_the_candidate(folder: Path, tmp_path: Path) -> None:
    bound = SMALL + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
    both = candidate(FROM_FILES, bound, paths=("k.py", "kernel.cu"))
    made = dataclasses.replace(both, entry_function="entry")
    call = build.load(made, problem(), device=CPU, folder=tmp_path).call
    torch.testing.assert_close(call(torch.ones(5)), torch.full((5,), 2.0))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch::Tensor run(torch::Tensor x);", ""),
        ("torch::Tensor run(torch::Tensor x);", "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}"),
    ],
)
def test_a_source_that_compiles_nowhere_is_the_candidates_own(
    tmp_path: Path, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unavailable, "_noted", [])
    text = (FALLS_BACK % SMALL).replace(old, new, 1)
    call = build.load(inline(text), problem(), device=CPU, folder=tmp_path).call
    torch.testing.assert_close(call(torch.ones(5)), torch.full((5,), 2.0))  # as on a GPU
    text = text.replace("except Exception:", "except ZeroDivisionError:")
    with pytest.raises(BuildError, match="Error building extension"):
        build.load(inline(text), problem(), device=CPU, folder=tmp_path)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("y[i] = __exp2f(x[i]);  // __exp2f has no header", BuildError),
        ("y[i] = __exp2f(x[i]);\n  // __exp2f has no header", BuildError),
        ("y[i] = __exp2f(x[i]);\n#define OTHER __exp2f", MissingToolError),
        ("y[i] = __expf(x[i]);", MissingToolError),  # CUDA's: what lacks it is not the candidate
    ],
)
def test_a_comment_declares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, fault: type[Exception]
) -> None:
    name = line.partition("(")[0].rpartition(" ")[2]
    number = SMALL.splitlines().index("  if (i < n) y[i] = 2 * x[i];") + 1
    log = f'm.cu({number}): error: identifier "{name}" is undefined'

    def refuses(*_: object) -> None:
        raise CompileError("NVRTC does not accept it", log)

    monkeypatch.setattr("ptxsan.host.build.compile_unit", refuses)
    unit = HostedUnit(name="m.cu", text=SMALL.replace("y[i] = 2 * x[i];", line))
    with pytest.raises(fault, match="NVRTC does not" if fault is BuildError else "may be at fault"):
        build_hosted("m", [unit], BuildFlags(), folder=tmp_path)
