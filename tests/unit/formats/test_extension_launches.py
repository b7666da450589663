"""Torch extensions read as kernels with launches: what is read, and what is said otherwise."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.build.cuda.nvrtc import compile_ptx, find_nvrtc
from cuassay.errors import CandidateError
from cuassay.formats.cpp_expressions import Unreadable, translated
from cuassay.formats.extension_launches import as_kernels
from cuassay.formats.inline_sources import inline_as_kernels
from cuassay.formats.on_device import on_device
from cuassay.model.axes import evaluate
from cuassay.model.candidate import Candidate, Language
from tests.support.builds import candidate, problem

KERNEL = """
template <typename T> __device__ T twice(T v) { return v + v; }
__global__ void __launch_bounds__(256) scale(const float* x, float* y, float f, int n, float eps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(x[i]) * f + eps;
}
"""
HOST = """
torch::Tensor run(torch::Tensor x, double factor) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    auto part = torch::zeros({x.size(0), 2}, x.options().dtype(torch::kInt32));
    const int n = x.numel(), threads = 256;  // one thread an element
    dim3 blocks((n + threads - 1) / threads);
    if (n == 0) return y;
    scale<<<blocks, std::min(threads, 256), 4 * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), (float*)y.data_ptr(), static_cast<float>(factor), n, 1e-6f);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &run); }
"""
HEADERS = "#include <torch/extension.h>\n#include <cuda_fp16.h>\n"


def extension(text: str, function: str = "forward") -> Candidate:
    base = candidate(text, paths=("k.cu",), language=Language.CUDA_EXTENSION)
    return dataclasses.replace(base, entry_function=function)


def test_launches_are_read_as_expressions_of_the_axes() -> None:
    found = as_kernels(extension(HEADERS + KERNEL + HOST), problem())
    assert found.language is Language.CUDA_KERNEL
    (launch,) = found.launches
    sizes = {"rows": 5, "hidden": 100, "half": 50}
    assert [evaluate(text, sizes) for text in launch.grid] == [2, 1, 1]
    assert evaluate(launch.block[0], sizes) == 256
    assert evaluate(launch.shared_bytes, sizes) == 16
    assert launch.arguments[:3] == ("x", "y", "factor")
    assert evaluate(launch.arguments[3].removesuffix(":int32"), sizes) == 500
    assert launch.arguments[4] == "1e-06:float32"
    (part,) = found.scratch
    assert (part.name, part.dtype, part.zeroed) == ("part", "int32", True)
    assert evaluate(part.size, sizes) == 10


@pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
def test_what_is_left_of_the_source_compiles_and_keeps_its_lines() -> None:
    found = as_kernels(extension(HEADERS + KERNEL + HOST), problem())
    text = found.sources[0].text
    assert "torch" not in text
    kernel = "int i = blockIdx.x"
    line = next(n for n, content in enumerate(text.splitlines()) if kernel in content)
    assert kernel in (HEADERS + KERNEL + HOST).splitlines()[line]
    assert ".entry scale(" in compile_ptx(text, arch="sm_80")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("scale<<<", "scale<float><<<", "is a template"),
        ("const int n = x.numel()", "const int n = count(x)", "'n' in '(n + threads"),
        ("return y;\n}", "return y + 1;\n}", "not the tensors that it made"),
        ("torch::Tensor x, double factor", "torch::Tensor x", "takes 1 arguments"),
        ('m.def("forward", &run)', 'm.def("forward", &other)', "'other' is not defined"),
    ],
)
def test_what_cannot_be_read_is_said_with_what_to_declare(old: str, new: str, message: str) -> None:
    with pytest.raises(CandidateError, match="cuassay-launch") as raised:
        as_kernels(extension((HEADERS + KERNEL + HOST).replace(old, new)), problem())
    assert message in str(raised.value)


def test_load_inline_is_read_where_the_wrapper_hands_its_parameters_on() -> None:
    text = (
        "from torch.utils.cpp_extension import load_inline\n"
        f"CUDA = r'''{KERNEL + HOST}'''\n"
        "module = load_inline('m', cpp_sources='', cuda_sources=[CUDA], functions=['run'])\n"
        "def entry(x, factor):\n    return module.run(x.contiguous(), factor)\n"
    )
    base = dataclasses.replace(candidate(text, paths=("k.py",)), entry_function="entry")
    found = inline_as_kernels(base, problem())
    assert [launch.kernel for launch in found.launches] == ["scale"]
    changed = text.replace("module.run(x.contiguous(), factor)", "module.run(x + 1, factor)")
    other = dataclasses.replace(candidate(changed, paths=("k.py",)), entry_function="entry")
    with pytest.raises(CandidateError, match="does more than hand its parameters on"):
        inline_as_kernels(other, problem())


def test_a_gpu_judges_the_extension_as_it_is() -> None:
    given = extension(HEADERS + KERNEL + HOST)
    assert on_device(given, problem(), "cuda") is given
    assert on_device(given, problem(), "cpu").language is Language.CUDA_KERNEL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(n + 255) / 256", 2),
        ("std::min<int>(n, 7u)", 7),
        ("static_cast<int64_t>(x.size(-1)) * 2", 200),
        ("x.sizes()[0]", 5),
        ("2 * sizeof(__half)", 4),
    ],
)
def test_expressions(text: str, expected: int) -> None:
    sizes = {"rows": 5, "hidden": 100}
    found = translated(text, {"n": "rows * hidden"}, {"x": ("rows", "hidden")})
    assert evaluate(found, sizes) == expected


@pytest.mark.parametrize("text", ["n > 3 ? 1 : 2", "foo(n)", "x.size(5)", "z.size(0)", "1 << n"])
def test_expressions_that_are_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        translated(text, {"n": "rows"}, {"x": ("rows", "hidden")})
