"""Kernels that everybody trusts are accepted on a GPU: torch.compile, SDPA back ends, Liger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.manifest import load
from tests.zoo.manifest_trusted import TRUSTED, Trusted

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def gpu_gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize("kernel", TRUSTED, ids=lambda kernel: f"{kernel.name}-{kernel.dtype}")
def test_trusted_kernel_is_accepted(kernel: Trusted, gpu_gate: Gate) -> None:
    if not kernel.installed:
        pytest.skip(f"{kernel.needs} is not installed")
    found = gpu_gate.judge(load(kernel.problem, dtype=kernel.variant), kernel.path)
    assert found.accepted, str(found)
