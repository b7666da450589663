"""The kernel of short accumulators in Triton's interpreter gives the bits of the plain path."""

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
import torch
from cuassay.oracle.truth import short_sums, triton_short_sums

for rows, terms, columns, scale in ((3, 40, 5, 8.0), (33, 97, 34, 1e-3), (1, 64, 70, 300.0)):
    generator = torch.Generator().manual_seed(1)
    left, right = (
        (torch.randn(shape, generator=generator) * scale).to(torch.float8_e4m3fn).double()
        for shape in ((rows, terms), (terms, columns))
    )
    left[0, :3] = 0.0
    right *= 0.3
    made = triton_short_sums.short_sums(
        left,
        right,
        block=short_sums.BLOCK,
        finest=2.0**-short_sums.FRACTION_BITS,
        least=2.0**-126,
    )
    assert not triton_short_sums.supports(left, right)
    assert torch.equal(made, short_sums.short_sum(left, right)), (rows, terms, columns)
    assert not torch.equal(made, left @ right)
print("agreed")
"""


def test_interpreted_kernel_gives_the_same_bits() -> None:
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
