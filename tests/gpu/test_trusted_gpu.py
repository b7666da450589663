"""Kernels that everybody trusts are accepted on a GPU: torch.compile, SDPA back ends, Liger."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.manifest import load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
TRUSTED = Path(__file__).parents[1] / "zoo" / "trusted"
KERNELS = (
    ("compile_rmsnorm", "rmsnorm"),
    ("compile_softmax_softcap", "softmax_softcap"),
    ("compile_swiglu", "swiglu"),
    ("sdpa_flash", "attention"),
    ("sdpa_efficient", "attention"),
    ("sdpa_cudnn", "attention"),
    ("sdpa_math", "attention"),
    ("liger_rmsnorm", "rmsnorm"),
    # Liger rounds silu(gate) as eager models do; the catalogue's operator does not.
    ("liger_swiglu", "zoo:swiglu_eager"),
)


@pytest.fixture(scope="module")
def gpu_gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("kernel", "problem"), KERNELS)
def test_trusted_kernel_is_accepted(kernel: str, problem: str, dtype: str, gpu_gate: Gate) -> None:
    if kernel.startswith("liger") and importlib.util.find_spec("liger_kernel") is None:
        pytest.skip("Liger-Kernel is not installed")
    if problem.startswith("zoo:") and dtype != "bfloat16":
        pytest.skip("this problem has one dtype")
    found = gpu_gate.judge(load(problem, dtype=dtype), TRUSTED / f"{kernel}.py")
    assert found.accepted, str(found)
