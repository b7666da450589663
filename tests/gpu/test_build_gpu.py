"""Builds on an NVIDIA GPU: native Triton, NVRTC and the driver, CUDA C++ extensions."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tests.support.builds import candidate, problem

from cuassay import build
from cuassay.build.cuda import nvrtc
from cuassay.errors import BuildError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.model.candidate import BuildFlags, Candidate, Convention, Language
from cuassay.model.device import CUDA

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "embedding_rmsnorm_backward"
TOKENS, HIDDEN, VOCAB = 2048, 128, 1024

RMSNORM = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
__global__ void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y,
                        int hidden, float eps) {
    const long long base = static_cast<long long>(blockIdx.x) * hidden;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += 32) {
        const float value = __bfloat162float(x[base + i]);
        sum += value * value;
    }
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    const float scale = rsqrtf(sum / hidden + eps);
    for (int i = threadIdx.x; i < hidden; i += 32)
        y[base + i] = __float2bfloat16_rn(__bfloat162float(x[base + i]) * scale *
                                          __bfloat162float(w[i]));
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, double eps) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
    auto y = torch::empty_like(x);
    rmsnorm<<<x.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __nv_bfloat16*>(x.data_ptr<at::BFloat16>()),
        reinterpret_cast<const __nv_bfloat16*>(w.data_ptr<at::BFloat16>()),
        reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()),
        static_cast<int>(x.size(1)), static_cast<float>(eps));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def rmsnorm(text: str = RMSNORM) -> Candidate:
    made = candidate(text, paths=("rmsnorm.cu",), language=Language.CUDA_EXTENSION)
    return dataclasses.replace(made, flags=BuildFlags(cuda_cflags=("-O3",)))


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(1)
    x = torch.randn(TOKENS, HIDDEN, device="cuda", generator=generator)
    grad = torch.randn(TOKENS, HIDDEN, device="cuda", generator=generator).bfloat16()
    ids = torch.randint(0, VOCAB, (TOKENS,), device="cuda", generator=generator)
    weight = torch.randn(HIDDEN, device="cuda", generator=generator).bfloat16()
    return [grad, ids, x, torch.rsqrt(x.square().mean(-1) + 1e-6), weight]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("kernel_fp32_triton.py", 4e-3),
        ("kernel_bf16_triton.py", 2e-2),
        ("kernel_fp32.cu", 4e-3),
        ("kernel_bf16.cu", 2e-2),
    ],
)
def test_example_kernels_run(tmp_path: Path, name: str, error: float) -> None:
    operator = load_problem(str(EXAMPLE / "problem"))
    kernel = load_candidate(str(EXAMPLE / name), operator)
    built = build.load(kernel, operator, device=CUDA, folder=tmp_path)
    given = inputs()
    if kernel.convention is Convention.DESTINATION:
        outputs = [
            torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda")
            for shape in ((VOCAB, HIDDEN), (HIDDEN,))
        ]
        built.call(*given, *outputs)
    else:
        outputs = list(built.call(*given))  # type: ignore[call-overload]
    expected = load_reference(operator).call(*given)
    assert isinstance(expected, tuple)
    for got, wanted in zip(outputs, expected, strict=True):
        wide = wanted.float()
        assert (got.float() - wide).norm() <= error * wide.norm()


def test_triton_stays_native_on_a_gpu(tmp_path: Path) -> None:
    operator = load_problem(str(EXAMPLE / "problem"))
    kernel = load_candidate(str(EXAMPLE / "kernel_fp32_triton.py"), operator)
    built = build.load(kernel, operator, device=CUDA, folder=tmp_path)
    assert built.kind == "python"
    assert built.toolchain["arch"].startswith("sm_")


def test_cuda_extension_builds_and_is_cached(tmp_path: Path) -> None:
    first = build.load(rmsnorm(), problem(), device=CUDA, folder=tmp_path)
    x = torch.randn(64, 512, device="cuda").bfloat16()
    w = torch.randn(512, device="cuda").bfloat16()
    y = first.call(x, w, 1e-6)
    assert isinstance(y, torch.Tensor)
    expected = torch.nn.functional.rms_norm(x.double(), (512,), w.double(), 1e-6)
    torch.testing.assert_close(y.double(), expected, rtol=1e-2, atol=1e-3)
    again = build.load(rmsnorm(), problem(), device=CUDA, folder=tmp_path)
    assert again.cached
    assert again.seconds < first.seconds
    assert (tmp_path / "objects" / "rmsnorm.cu.light.o").is_file()  # the light headers sufficed


def test_cuda_extension_that_needs_all_headers(tmp_path: Path) -> None:
    text = RMSNORM.replace(
        "auto y = torch::empty_like(x);",
        "torch::NoGradGuard guard;\n    auto y = torch::empty_like(x);",
    )
    built = build.load(rmsnorm(text), problem(), device=CUDA, folder=tmp_path)
    x, w = torch.ones(2, 64, device="cuda").bfloat16(), torch.ones(64, device="cuda").bfloat16()
    y = built.call(x, w, 0.0)
    assert isinstance(y, torch.Tensor)
    assert y.float().mean() == 1.0


def test_compiler_error_of_an_extension(tmp_path: Path) -> None:
    text = RMSNORM.replace("float sum = 0.0f;", "flaot sum = 0.0f;")
    with pytest.raises(BuildError, match=r"rmsnorm\.cu does not compile") as info:
        build.load(rmsnorm(text), problem(), device=CUDA, folder=tmp_path)
    assert "flaot" in info.value.log


def test_killed_build_does_not_block_the_next(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.gpu.test_build_gpu import rmsnorm\n"
        "from tests.support.builds import problem\n"
        "from cuassay import build\n"
        "from cuassay.model.device import CUDA\n"
        "build.load(rmsnorm(), problem(), device=CUDA, folder=Path(sys.argv[1]))\n"
    )
    builder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "objects").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(builder.pid, signal.SIGKILL)
    builder.wait()
    assert build.load(rmsnorm(), problem(), device=CUDA, folder=tmp_path).call is not None


def test_nvrtc_compiles_for_this_device() -> None:
    if nvrtc.find_nvrtc() is None:
        pytest.skip("libnvrtc is not installed")
    arch = build.toolchain(CUDA)["arch"]
    source = '#include <cuda_bf16.h>\nextern "C" __global__ void k(__nv_bfloat16* p) { *p = p[1]; }'
    assert nvrtc.compile_cubin(source, arch=arch)[:4] == b"\x7fELF"


def test_raw_kernel_that_does_not_compile() -> None:
    with pytest.raises(BuildError, match="does not compile"):
        nvrtc.compile_cubin("__global__ void k() { nothing; }", arch="sm_90")
