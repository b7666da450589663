"""Kernels of C++ extensions on a GPU: counted, switched off, and missed where they matter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support.builds import candidate
from tests.zoo.manifest import load

from cuassay import build
from cuassay.checks.kernels.own_work import Ghost001
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import open_trial
from cuassay.model.candidate import Language
from cuassay.model.device import CUDA
from cuassay.model.outcome import Finding
from cuassay.model.steps import Disarm
from cuassay.model.verdict import Profile
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import launches
from cuassay.sandbox.local import LocalRunner

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void gated(const float* gate, const float* up, float* y, long long count) {
    const long long at = blockIdx.x * 256LL + threadIdx.x;
    if (at < count) y[at] = gate[at] / (1.0f + expf(-gate[at])) * up[at];
}
torch::Tensor run(torch::Tensor gate, torch::Tensor up) {
    auto g = gate.contiguous(), u = up.contiguous(), y = torch::empty_like(g);
    const long long count = g.numel();
    if (count)
        gated<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            g.data_ptr<float>(), u.data_ptr<float>(), y.data_ptr<float>(), count);
    return ANSWER;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def findings(answer: str, folder: Path) -> tuple[list[Finding], dict[str, str]]:
    """Return what GHOST001 says of an extension, and the launches that were counted."""
    problem = load("swiglu@float32")
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CUDA, root_seed=4
    )
    made = candidate(
        SOURCE.replace("ANSWER", answer), paths=("k.cu",), language=Language.CUDA_EXTENSION
    )
    built = build.load(made, problem, device=CUDA, folder=folder)
    runner = LocalRunner(built.call, problem, device=CUDA)
    found: list[Finding] = []
    for scenario in Ghost001().propose(trial):
        run = runner.run(scenario, trial.inputs, None)
        found += Ghost001().judge(trial, scenario, run).findings
    facts = dict(launches.read(Around()).facts)
    launches.disarm(Around(), Disarm(active=False))
    return found, {name: count for name, count in facts.items() if "kernels of" in name}


def test_an_extension_whose_kernel_matters_passes_and_is_counted(tmp_path: Path) -> None:
    found, counted = findings("y", tmp_path)
    assert found == []
    assert counted
    assert any(int(count) >= 2 for count in counted.values()), counted


def test_an_extension_that_throws_its_result_away_is_found(tmp_path: Path) -> None:
    found, _ = findings("torch::silu(g) * u", tmp_path)
    assert [finding.code for finding in found] == ["GHOST001"]
    assert "launched, and what it gives is not used" in found[0].message
