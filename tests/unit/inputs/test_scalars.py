"""Scalar arguments: legal values, far ones, and those that follow from sizes."""

from __future__ import annotations

import dataclasses
import math

import pytest

from cuassay.inputs.scalars import (
    default_scalar,
    drawn_scalar,
    drawn_share,
    may_be_sizes,
    moved_scalar,
    near_powers,
    sizes_given,
)
from cuassay.model.domain import Choice, Domain, IntegerRange, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import STATE_SOURCE, Problem, Scalar, ScalarSpec
from tests.support.fake_trial import row_sum


def _scalar(domain: Domain, dtype: DType = DType.FLOAT32, default: Scalar | None = None,
            name: str = "s") -> ScalarSpec:  # fmt: skip
    return ScalarSpec(name=name, dtype=dtype, domain=domain, default=default)


def _with(spec: ScalarSpec) -> Problem:
    made = row_sum().problem
    return dataclasses.replace(made, inputs=(*made.inputs, spec))


@pytest.mark.parametrize("domain", [Real(low=1e-6, high=1e3), Real(low=-2.0, high=5.0)])
def test_draws_fill_a_range_and_wide_ranges_in_every_decade(domain: Real) -> None:
    low, high = domain.low or 0.0, domain.high or 0.0
    drawn = [float(drawn_scalar(_scalar(domain), seed=seed)) for seed in range(200)]
    assert all(low <= value <= high for value in drawn)
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    assert 60 < sum(value < middle for value in drawn) < 140


def test_every_choice_and_every_integer_is_drawn_at_some_seed() -> None:
    choice, numbers = _scalar(Choice(values=(1, 4, 9))), _scalar(IntegerRange(low=-1, high=2))
    assert {drawn_scalar(choice, seed=seed) for seed in range(60)} == {1, 4, 9}
    assert {drawn_scalar(numbers, seed=seed) for seed in range(60)} == {-1, 0, 1, 2}


def test_the_usual_value_is_the_default_and_an_unknown_integer_is_one() -> None:
    assert default_scalar(_scalar(Real(), default=0.25)) == 0.25
    assert default_scalar(_scalar(Real(), DType.INT64)) == 1
    assert isinstance(default_scalar(_scalar(Real(), DType.BOOL)), bool)


@pytest.mark.parametrize(
    ("spec", "current", "moved"),
    [
        (_scalar(Choice(values=(1, 2, 9))), 2, 9),
        (_scalar(Choice(values=(2,))), 2, None),
        (_scalar(IntegerRange(low=0, high=10)), 3, 10),
        (_scalar(IntegerRange(low=0, high=10)), 8, 0),
        (_scalar(IntegerRange(low=4, high=4)), 4, None),
        (_scalar(Real(), DType.BOOL), True, False),
        (_scalar(Real(), DType.INT32), 7, None),  # it may be a size
        (_scalar(Real(low=0.5, high=4.0)), 1.0, 4.0),
        (_scalar(Real(low=1e-5)), 1e-5, 1e-5 * 30),  # of an epsilon the order matters
    ],
)
def test_a_moved_scalar_is_legal_and_far(
    spec: ScalarSpec, current: Scalar, moved: Scalar | None
) -> None:
    found = moved_scalar(spec, current)
    assert found == (moved if moved is None else pytest.approx(moved))


def test_a_range_that_does_not_hold_the_usual_value_is_still_kept() -> None:
    assert moved_scalar(_scalar(Real(low=10.0)), 1.0) == 10.0
    assert drawn_scalar(_scalar(Real(high=-3.0), default=2.0), seed=1) == -3.0


def test_a_scalar_may_be_a_size_where_nothing_says_what_it_is() -> None:
    assert not may_be_sizes(row_sum().problem)
    for domain, name, dtype, expected in (
        (Real(), "n", DType.INT64, True),
        (Real(), "n", DType.FLOAT32, False),
        (Real(), "n", DType.BOOL, False),
        (SizeOf(axis="rows"), "n", DType.INT64, False),
        (Choice(values=(3,)), "n", DType.INT64, False),
        (Choice(values=(3, 4)), "n", DType.INT64, True),
        (Choice(values=(0, 1)), STATE_SOURCE, DType.INT64, False),
    ):
        assert may_be_sizes(_with(_scalar(domain, dtype, name=name))) is expected, (domain, dtype)


def test_scalars_that_repeat_a_size_follow_it() -> None:
    made = _with(_scalar(SizeOf(axis="rows * cols"), DType.INT64))
    assert sizes_given(made, {"rows": 3, "cols": 5}) == {"s": 15}


def test_values_beside_a_power_of_two_are_no_powers_of_two() -> None:
    made = _with(_scalar(Real()))
    found = {near_powers(made, {"s": 0.24}, seed=seed)["s"] for seed in range(20)}
    assert found == {0.25 * (1 + 2.0**-7), 0.25 * (1 - 2.0**-8)}
    bounded = _with(_scalar(Real(low=0.3, high=0.4)))
    assert near_powers(bounded, {"s": 0.35}, seed=1) in ({}, {"s": 0.25 * (1 + 2.0**-7)})
    assert near_powers(made, {"s": -0.5}, seed=1) == near_powers(made, {}, seed=1) == {}


def test_a_share_depends_on_all_of_its_seed() -> None:
    assert drawn_share(1, "a") == drawn_share(1, "a")
    assert len({drawn_share(1, "a"), drawn_share(1, "b"), drawn_share(2, "a")}) == 3
    assert 0.0 <= drawn_share("x") < 1.0
