"""Sums in short accumulators on a GPU: the kernel gives the bits of the plain path."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.truth import short_sums

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("shape", [(300, 1000, 257), (1, 4127, 20_000), (2048, 64, 1024)])
def test_the_kernel_gives_the_bits_of_the_plain_path(shape: tuple[int, int, int]) -> None:
    triton_short_sums = pytest.importorskip("cuassay.oracle.truth.triton_short_sums")
    rows, terms, columns = shape
    generator = torch.Generator("cuda").manual_seed(1)
    left, right = (
        (torch.randn(size, generator=generator, device="cuda") * 8).to(torch.float8_e4m3fn).double()
        for size in ((rows, terms), (terms, columns))
    )
    right = right * 0.3  # times a scale, as codes are stored
    assert triton_short_sums.supports(left, right)
    made = short_sums.short_sum(left, right)
    assert torch.equal(made.cpu(), short_sums.short_sum(left.cpu(), right.cpu()))
