"""Products of prefixes: noise by the number of factors, memory by the length of a row alone."""

from __future__ import annotations

import pytest
import torch

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import Truth, make_truth

_SPEC = TensorSpec(name="y", dtype=DType.FLOAT32, shape=("rows", "cols"), domain=Real())


def _truth(x: torch.Tensor) -> Truth:
    return make_truth(lambda x: x.cumprod(-1), [x], [_SPEC], seed=3)


def _input(cols: int, seed: int) -> torch.Tensor:
    drawn = torch.rand(5, cols, generator=torch.Generator().manual_seed(seed))
    return (1.0 + (drawn - 0.5) / 16).float()


def _doubling(x: torch.Tensor) -> torch.Tensor:
    """Multiply prefixes of doubling lengths, as a parallel scan does."""
    step, out = 1, x
    while step < x.shape[-1]:
        out = torch.cat([out[:, :step], out[:, step:] * out[:, :-step]], -1)
        step *= 2
    return out


@pytest.mark.parametrize("seed", range(4))
def test_another_order_passes_and_a_dropped_factor_fails(seed: int) -> None:
    x = _input(300, seed)
    (output,) = _truth(x).outputs
    assert compare(_doubling(x), output).passed
    assert compare(x.double().cumprod(-1).float(), output).passed
    late = x.clone()
    late[:, 256] = 1.0  # the first factor of a second block
    assert not compare(late.cumprod(-1), output).passed
    assert not compare(x.bfloat16().cumprod(-1).float(), output).passed


def test_long_rows_take_no_square_of_memory() -> None:
    (output,) = _truth(_input(1 << 17, 1)).outputs  # every prefix anew: 640 GiB
    assert output.scale is not None
    assert bool(torch.isfinite(output.scale).all())
