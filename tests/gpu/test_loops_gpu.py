"""Loops on a GPU: the known CUDA C++ and Triton kernels and their twins, isolated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cuassay.formats import load_candidate
from cuassay.model.device import CUDA
from cuassay_loops import presets, sites
from cuassay_loops.kernels import IsolatedKernel
from cuassay_loops.results import Cell
from cuassay_loops.train.cell import Settings, run_cell

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
_EXAMPLES = Path(__file__).parents[2] / "examples" / "embedding_rmsnorm_backward"


@pytest.mark.parametrize("suffix", ["_triton.py", ".cu"])
@pytest.mark.parametrize(("word", "left"), [("bf16", True), ("fp32", False)])
def test_the_known_kernels_in_training(word: str, left: bool, suffix: str) -> None:
    site = sites.find_site("embedding_rmsnorm_backward")
    preset = replace(presets.preset("tiny"), vocab=1024)
    problem = sites.site_problem(site, "bf16", vocab=preset.vocab)
    candidate = load_candidate(str(_EXAMPLES / f"kernel_{word}{suffix}"), problem)
    with IsolatedKernel(candidate, problem, device=CUDA) as kernel:
        found = run_cell(
            Cell(data="real", optimizer="sgd", precision="bf16", seed=0),
            Settings(site=site.name, kernel=kernel, preset=preset, steps=15, device=CUDA, seed=4),
        )
    assert found.gradient_left_band is left, found
    assert not found.failure
    assert not found.undecided
