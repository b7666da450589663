"""Kernel languages that torch tensors can be passed to: an example of each, judged on a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.zoo.judging import Gate

from cuassay.catalog import registry

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
EXAMPLES = Path(__file__).parents[2] / "examples" / "languages"
# What a language needs, and how its example is made a kernel with another gate.
LANGUAGES = {
    "gluon": ("triton.experimental.gluon", "gl.exp(-g)", "gl.exp(0.1 - g)"),
    "helion": ("helion", "torch.sigmoid(g)", "torch.sigmoid(g - 0.1)"),
    "cupy": ("cupy", "expf(-g)", "expf(0.1f - g)"),
    "cute": ("cutlass.cute", "cute.math.exp(-g)", "cute.math.exp(0.1 - g)"),
    "cuda_core": ("cuda.core", "expf(-g)", "expf(0.1f - g)"),
    "numba": ("numba_cuda", "math.exp(-g)", "math.exp(0.1 - g)"),
    "tilelang": ("tilelang", "T.exp(-g)", "T.exp(0.1 - g)"),
}


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


def test_every_example_is_judged() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {f"swiglu_{name}" for name in LANGUAGES}


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_example_is_accepted_and_a_kernel_with_another_gate_is_not(
    name: str, gate: Gate, tmp_path: Path
) -> None:
    module, right, wrong = LANGUAGES[name]
    try:
        importlib.import_module(module)
    except ImportError as error:
        pytest.skip(str(error))
    problem, file = registry.get("swiglu"), EXAMPLES / f"swiglu_{name}.py"
    found = gate.judge(problem, file)
    assert found.accepted, str(found)
    text = file.read_text(encoding="utf-8")
    assert right in text
    broken = tmp_path / file.name
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    assert "NUM001" in gate.judge(problem, broken, only=("NUM001",)).codes
