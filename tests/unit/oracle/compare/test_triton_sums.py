"""The fused kernel in Triton's interpreter gives the sums of the plain path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cuassay
from tests.support.paths import python_path

pytest.importorskip("triton", reason="triton is not installed")

# Triton reads TRITON_INTERPRET once, when it is imported: hence a process of its own.
_PROGRAM = """
import math
import torch
from cuassay.model.dtype import DType
from cuassay.oracle.compare import sums as compare_sums, triton_sums as compare_triton
from cuassay.oracle.truth.types import OutputTruth

for shape in ((70, 40), (3, 300), (1, 1500)):
    generator = torch.Generator().manual_seed(1)
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    scale = (value.abs() * 1e-7 + 1e-8).float()
    candidate = (value + 1e-7 * torch.randn(shape, generator=generator)).float()
    value[0, 3], candidate[0, 3], scale[0, 3] = 0.0, 0.0, 0.0
    scale[0, 5] *= -1.0
    value[0, 7], candidate[0, 7] = math.inf, math.inf
    candidate[0, 9] = math.nan
    output = OutputTruth(name="y", dtype=DType.FLOAT32, value=value, scale=scale, unit=1e-7)
    fused = compare_triton.fused_sums(candidate, value, scale, output)
    plain = compare_sums.eager_sums(candidate, value, scale, output)
    for mine, theirs in ((fused.rows, plain.rows), (fused.columns, plain.columns)):
        if mine.numel():
            size = theirs.abs().amax(1, keepdim=True)
            assert ((mine - theirs).abs() <= 1e-5 * size).all(), shape
    assert int((fused.peak >= 1e38).sum()) == 1, shape
    assert float(fused.peak.max()) == float(torch.tensor(compare_sums.MISMATCH)), shape
print("agreed")
"""


def test_interpreted_kernel_agrees_with_the_plain_path() -> None:
    source = python_path(Path(cuassay.__file__).parents[1])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "agreed"
