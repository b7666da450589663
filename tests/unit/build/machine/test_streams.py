"""Streams and temporaries of an extension's host code, run without a GPU."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cuassay import build
from cuassay.build.cuda import hosted
from cuassay.build.cuda.hosted import prepare_headers
from cuassay.build.machine import candidates as machine
from cuassay.build.machine.hosted import HostedLaunches
from cuassay.model.device import CPU
from cuassay.model.recording import CallerOrder, RecordedLaunch
from tests.support.builds import problem
from tests.unit.build.cuda.test_hosted import inline

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or bool(machine.missing()), reason="needs g++ and the machine"
)
_CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
__global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}
static void on(cudaStream_t stream, const float* x, torch::Tensor& y, double factor) {
  int n = y.numel();
  scale<<<(n + 31) / 32, 32, 0, stream>>>(x, y.data_ptr<float>(), static_cast<float>(factor), n);
}
torch::Tensor scaled(torch::Tensor x, double factor, const std::string& how) {
  auto y = torch::empty_like(x);
  auto current = at::cuda::getCurrentCUDAStream();
  auto pool = at::cuda::getStreamFromPool(false, x.get_device());
  const float* data = x.data_ptr<float>();
  if (how == "current") on(current, data, y, factor);
  if (how == "default") on(0, data, y, factor);
  if (how == "pool") on(pool, data, y, factor);
  if (how == "guarded pool") {
    c10::cuda::CUDAStreamGuard guard(pool);
    on(at::cuda::getCurrentCUDAStream(), data, y, factor);
  }
  if (how == "after the guard") {
    { c10::cuda::CUDAStreamGuard guard(pool); }
    on(at::cuda::getCurrentCUDAStream(), data, y, factor);
  }
  if (how == "pool, waited for by the host") {
    on(pool, data, y, factor);
    cudaStreamSynchronize(pool);
  }
  if (how.rfind("pool, events", 0) == 0) {
    at::cuda::CUDAEvent begun, done;
    begun.record(current);
    begun.block(pool);
    on(pool, data, y, factor);
    done.record(pool);
    if (how == "pool, events") done.block(current);
  }
  if (how == "pool, event behind it alone") {
    at::cuda::CUDAEvent done;
    on(pool, data, y, factor);
    done.record(pool);
    done.block(current);
  }
  return y;
}
torch::Tensor dead(torch::Tensor x, double factor) {
  const float* data = x.t().contiguous().data_ptr<float>();
  auto y = torch::empty({x.size(1), x.size(0)}, x.options());
  on(at::cuda::getCurrentCUDAStream(), data, y, factor);
  return y;
}
torch::Tensor alive(torch::Tensor x, double factor) {
  auto turned = x.t().contiguous();
  auto y = torch::empty_like(turned);
  on(at::cuda::getCurrentCUDAStream(), turned.data_ptr<float>(), y, factor);
  return y;
}
torch::Tensor within_the_call(torch::Tensor x, double factor) {
  auto y = torch::empty({x.size(1), x.size(0)}, x.options());
  on(at::cuda::getCurrentCUDAStream(), x.t().contiguous().data_ptr<float>(), y, factor);
  return y;
}
torch::Tensor too_tall(torch::Tensor x) {
  scale<<<dim3(1, 70000), 32>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1.0f, 1);
  return x;
}
"""
_PYTHON = """
import torch
from torch.utils.cpp_extension import load_inline
CUDA = r'''%s'''
DECLARED = ["torch::Tensor scaled(torch::Tensor x, double factor, const std::string& how);",
            "torch::Tensor dead(torch::Tensor x, double factor);",
            "torch::Tensor alive(torch::Tensor x, double factor);",
            "torch::Tensor within_the_call(torch::Tensor x, double factor);",
            "torch::Tensor too_tall(torch::Tensor x);"]
NAMES = ["scaled", "dead", "alive", "within_the_call", "too_tall"]
module = load_inline("s", cpp_sources=DECLARED, cuda_sources=CUDA, functions=NAMES)
def entry(x, how):
    y = module.scaled(x, 3.0, how.removesuffix(" from Python"))
    if how.endswith("from Python"):
        torch.cuda.synchronize()
    return y
def temporary(x, how):
    return getattr(module, how)(x, 3.0)
def refused(x):
    return module.too_tall(x)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepare_headers()
    return tmp_path_factory.mktemp("hosted")


def _loaded(folder: Path, entry: str) -> Callable[..., object]:
    text = _PYTHON % _CUDA
    return build.load(inline(text, entry), problem(), device=CPU, folder=folder).call


@pytest.mark.parametrize(
    ("how", "order"),
    [
        ("current", CallerOrder.ALWAYS),
        ("default", CallerOrder.DEFAULT),
        ("pool", CallerOrder.NEVER),
        ("pool, events", CallerOrder.ALWAYS),
    ],
)
def test_a_call_that_loads_its_extension_is_in_order_like_any_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str, order: CallerOrder
) -> None:
    first, rest = (_PYTHON % _CUDA).split("module = ")
    loading, rest = rest.split("\ndef entry(x, how):\n")
    late = f"{first}\ndef entry(x, how):\n    module = {loading}\n{rest}"
    if hosted._connected is not None and hosted._connected._streams is not None:
        unused = dataclasses.replace(hosted._connected._streams, _begun=[], _launched=[])
        monkeypatch.setattr(hosted._connected, "_streams", unused)
    call = build.load(inline(late), problem(), device=CPU, folder=folder).call
    launches, launcher = hosted._launches, machine.current

    def after_a_long_build(folder: Path) -> HostedLaunches:
        monkeypatch.setattr(launcher, "_until", 1e-9)
        return launches(folder)

    monkeypatch.setattr(hosted, "_launches", after_a_long_build)
    (launch,) = _recorded(call, torch.randn(5, 8), how)
    assert launch.order is order


def _recorded(call: Callable[..., object], *arguments: object) -> tuple[RecordedLaunch, ...]:
    launcher = machine.current
    assert launcher is not None
    launcher.recorder.start()
    try:
        call(*arguments)
        return launcher.recorder.recording().launches
    finally:
        launcher.recorder.on = False


@pytest.mark.parametrize(
    ("how", "order"),
    [
        ("current", CallerOrder.ALWAYS),
        ("default", CallerOrder.DEFAULT),
        ("pool", CallerOrder.NEVER),
        ("guarded pool", CallerOrder.NEVER),
        ("after the guard", CallerOrder.ALWAYS),
        ("pool, waited for by the host", CallerOrder.NEVER),  # it may begin too early
        ("pool, events", CallerOrder.ALWAYS),
        ("pool, events before it alone", CallerOrder.NEVER),
        ("pool, event behind it alone", CallerOrder.NEVER),
        ("pool, events before it alone from Python", CallerOrder.ALWAYS),
        ("default from Python", CallerOrder.DEFAULT),
    ],
)
def test_for_whom_a_launch_is_in_order(folder: Path, how: str, order: CallerOrder) -> None:
    call = _loaded(folder, "entry")
    for _ in range(2):  # an earlier call orders nothing
        (launch,) = _recorded(call, torch.randn(5, 8), how)
        assert launch.order is order


@pytest.mark.parametrize(
    ("how", "lives"), [("alive", True), ("dead", False), ("within_the_call", True)]
)
def test_a_temporary_that_died_before_the_launch_is_nobodys(
    folder: Path, how: str, lives: bool
) -> None:
    call = _loaded(folder, "temporary")
    x = torch.randn(5, 8)
    (launch,) = _recorded(call, x, how)
    gone = [one for one in launch.regions if one.name.endswith("freed before this launch")]
    assert bool(gone) != lives
    assert all(one.nbytes == 0 for one in gone)
    if lives:
        torch.testing.assert_close(call(x, how), 3 * x.t().contiguous())


def test_a_refused_launch_says_why_and_where(folder: Path) -> None:
    call = _loaded(folder, "refused")
    with pytest.raises(
        RuntimeError, match="invalid configuration argument: kernel 'scale': a grid"
    ):
        call(torch.randn(5, 8))
