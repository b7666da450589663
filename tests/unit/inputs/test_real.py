"""Regimes of real numbers: each has the property that its check relies on."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.inputs import real
from cuassay.inputs.request import FillFunction, Request
from cuassay.model.case import FillValue
from cuassay.model.device import CPU
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec


def _made(
    fill: FillFunction,
    shape: tuple[int, ...] = (64, 256),
    dtype: DType = DType.FLOAT32,
    **parameters: FillValue,
) -> torch.Tensor:
    names = tuple(f"a{number}" for number in range(len(shape)))
    request = Request(
        spec=TensorSpec(name="x", dtype=dtype, shape=names, domain=Real()),
        shape=shape,
        parameters=parameters,
        generator=torch.Generator().manual_seed(7),
        device=CPU,
        work=torch.float64 if dtype is DType.FLOAT64 else torch.float32,
    )
    return fill(request)


_ALL = [
    real.normal, real.leading_ones, real.among, real.same_sign, real.offset, real.uniform,
    real.lognormal, real.cauchy, real.outlier, real.massive, real.near_constant,
    real.large_mean_small_variance, real.cancelling, real.alternating, real.halved, real.ones,
    real.zeros, real.constant, real.small_integers, real.powers_of_two, real.one_hot,
    real.mixed_scale, real.tiny, real.huge, real.sorted_values, real.late_peak, real.confident,
    real.leading, real.levels, real.low_bits, real.patchwork,
]  # fmt: skip


@pytest.mark.parametrize("fill", _ALL, ids=lambda one: one.__name__)
@pytest.mark.parametrize("shape", [(5, 7), (6,), (), (0, 4), (3, 0), (1, 1)])
def test_every_regime_takes_every_shape(fill: FillFunction, shape: tuple[int, ...]) -> None:
    made = _made(fill, shape)
    assert tuple(made.shape) == shape
    assert bool(made.isfinite().all())


def test_rows_lie_at_levels_of_their_own() -> None:
    rows = _made(real.levels)
    level = rows.mean(-1)
    assert bool(((rows / level.unsqueeze(-1) - 1.0).abs() < 0.06).all())
    steps = level.sort().values.diff()
    assert 1.9 < float(level.min()) < 2.4
    assert 19.5 < float(level.max()) < 20.1
    assert float(steps.max()) < 0.33  # 18 / 64, and what a mean of 256 errs by
    assert not bool((level.diff() > 0).all())


def test_terms_of_one_sign_keep_it() -> None:
    assert bool((_made(real.same_sign, floor=0.5) >= 0.5).all())
    assert bool((_made(real.lognormal, signed=0.0) > 0).all())
    signs = _made(real.alternating).sign()
    assert bool((signs[:, ::2] >= 0).all())
    assert bool((signs[:, 1::2] <= 0).all())


def test_halves_cancel_but_for_a_remainder() -> None:
    made = _made(real.cancelling, (64, 16))
    total, largest = made.sum(0).abs().max(), made[:32].sum(0).min()
    assert largest > 10 * total


def test_a_few_channels_are_larger_in_every_row() -> None:
    for fill, least in ((real.outlier, 20.0), (real.massive, 20.0)):
        size = _made(fill).abs().median(0).values
        large = size > least * size.median()
        assert 1 <= int(large.sum()) <= 5


def test_exact_numbers_are_whole_or_powers_of_two() -> None:
    whole = _made(real.small_integers, limit=2)
    assert set(whole.flatten().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    powers = _made(real.powers_of_two, span=2).abs()
    assert set(powers.flatten().tolist()) == {0.25, 0.5, 1.0, 2.0, 4.0}


def test_each_row_has_one_peak() -> None:
    hot = _made(real.one_hot, value=3.0)
    assert hot.sum(-1).tolist() == [3.0] * 64
    assert bool((_made(real.late_peak)[:, -1] == 50.0).all())
    logits = _made(real.confident)
    chance = logits.double().softmax(-1)[:, -1]
    assert float(chance.min()) > 0.4
    assert float(chance.max()) < 1.0


def test_rows_are_sorted_either_way() -> None:
    up, down = _made(real.sorted_values), _made(real.sorted_values, descending=1.0)
    assert bool((up.diff(dim=-1) >= 0).all())
    assert bool((down.diff(dim=-1) <= 0).all())


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32])
def test_ends_of_a_dtype_are_reached_and_not_passed(dtype: DType) -> None:
    form = dtype.float_format
    huge = _made(real.huge, dtype=dtype).abs()
    assert 0.2 * form.maximum < float(huge.max()) <= 0.25 * form.maximum
    tiny = _made(real.tiny, dtype=dtype).abs()
    assert bool((tiny < form.smallest_normal).any())
    assert float(tiny.max()) < 100 * form.smallest_normal
    low = _made(real.low_bits, dtype=dtype)
    steps = (low - 1.0) / (2.0 * form.unit_roundoff)
    assert set(steps.flatten().tolist()) <= set(map(float, range(8)))


def test_a_half_is_zero_early_or_late() -> None:
    early, late = _made(real.halved), _made(real.halved, late=1.0)
    assert not bool(early[:, :128].any())
    assert bool(early[:, 128:].all())
    assert bool(late[:, :128].all())
    assert not bool(late[:, 128:].any())


def test_rows_differ_in_size_by_orders_and_some_are_zero() -> None:
    size = _made(real.mixed_scale, (32, 64)).abs().amax(-1)
    assert float(size.max() / size.min()) > 1e3
    zero = _made(real.mixed_scale, (32, 64), zero=0.1).abs().amax(-1)
    assert 1 <= int((zero == 0).sum()) <= 6


def test_explicit_numbers_repeat_row_by_row() -> None:
    made = _made(real.explicit, (2, 3), values=(1.0, 2.0))
    assert made.tolist() == [[1.0, 2.0, 1.0], [2.0, 1.0, 2.0]]
    with pytest.raises(ProblemError, match="needs 'values', a non-empty tuple"):
        _made(real.explicit, (2, 3))
    with pytest.raises(ProblemError, match="'scale' of input 'x' is 'large', expected a number"):
        _made(real.normal, scale="large")


def test_a_cauchy_variable_is_cut_and_dominated_by_few() -> None:
    made = _made(real.cauchy, cut=50.0).abs()
    assert float(made.max()) <= 50.0
    assert math.isclose(float(made.median()), 1.0, rel_tol=0.1)
    assert float(made.max()) > 20 * float(made.median())
