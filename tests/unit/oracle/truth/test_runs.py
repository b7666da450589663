"""The checksum that gives each case's noise its seed: of values, whatever memory they lie in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.own_error import own_errors
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.runs import FirstRuns, fingerprint
from tests.support.oracle_cases import spec


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(35.0).reshape(5, 7),
        torch.arange(10.0)[::2][:1],  # counts as contiguous, and has no bytes to view
        torch.tensor(3.0),
        torch.zeros(0, 4),
        torch.arange(300).reshape(3, 100).to(torch.int16).t(),
        torch.arange(9.0).expand(4, 9),
        torch.arange(64.0).to(torch.float8_e4m3fn),
    ],
    ids=["matrix", "one strided", "scalar", "empty", "transposed", "expanded", "float8"],
)
def test_equal_values_have_one_checksum(value: Tensor) -> None:
    copy = value.clone(memory_format=torch.contiguous_format)
    assert fingerprint([value, 1.5]) == fingerprint([copy, 1.5])
    assert fingerprint([value, 1.5]) != fingerprint([value, 2.5])


def test_other_values_or_shapes_have_another_one() -> None:
    x = torch.arange(12.0)
    assert len({fingerprint([one]) for one in (x, x + 1, x.view(3, 4), x.double())}) == 4
    assert fingerprint([x, x + 1]) != fingerprint([x + 1, x])


def test_truths_of_one_case_share_the_runs_with_which_they_begin() -> None:
    calls: list[str] = []

    def norm(x: Tensor) -> Tensor:
        calls.append(type(x).__name__)
        return (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True))).to(x.dtype)

    generator = torch.Generator().manual_seed(3)
    x = torch.randn(24, 32, generator=generator).to(torch.bfloat16)
    wanted = [spec("bfloat16", "m", "n")]
    alone = make_truth(norm, [x], wanted, seed=5)
    assert len(calls) == 4  # as written, in float64, in float32, and all draws in one run
    calls.clear()
    first = FirstRuns()
    (own,) = own_errors(norm, [x], wanted, seed=5, first=first)
    rough = make_truth(norm, [x], wanted, seed=5, draws=2, first=first)
    full = make_truth(norm, [x], wanted, seed=5, first=first)
    assert len(calls) == 5
    mixed = family_of(Precision.MIXED, DType.BFLOAT16)
    wide = make_truth(norm, [x], wanted, seed=5, family=mixed, first=first)
    assert first.nbytes == 24 * 32 * (2 + 8 + 4)
    assert torch.equal(own.written, norm(x))
    for made in (rough, full, wide):
        assert torch.equal(made.outputs[0].value, alone.outputs[0].value)
    assert full.outputs[0].scale is not None
    assert alone.outputs[0].scale is not None
    assert torch.equal(full.outputs[0].scale, alone.outputs[0].scale)
