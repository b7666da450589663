"""Regimes: which inputs take one, and that none is left at ones or zeros."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.inputs.regimes import (
    HOT_INDEX,
    HOT_SUM,
    NUMERIC,
    Regime,
    fill,
    fills_for,
    main_rank,
    scalars_for,
)
from cuassay.model.case import ALSO
from cuassay.model.domain import Domain, Index, Lengths, Opaque, Positive, Probability, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, ScalarSource, ScalarSpec, TensorSpec, Workload
from tests.support.fake_trial import scaled_add, tensor

LARGE = Regime(name="large", main=fill("normal", scale=50.0), index=fill("zipf", exponent=1.0))


def _with(*specs: TensorSpec) -> Problem:
    made = scaled_add().problem
    return dataclasses.replace(made, inputs=(*made.inputs, *specs))


def _spec(domain: Domain, dtype: DType = DType.FLOAT32) -> TensorSpec:
    return TensorSpec(name="s", dtype=dtype, shape=("rows", "cols"), domain=domain)


def test_names_are_unique_where_a_trial_chooses_by_them() -> None:
    for regimes in (NUMERIC, HOT_INDEX, HOT_SUM):
        assert len({one.name for one in regimes}) == len(regimes)


@pytest.mark.parametrize("regime", NUMERIC, ids=lambda one: one.name)
def test_the_main_input_takes_the_regime_and_the_side_input_is_drawn(regime: Regime) -> None:
    fills = fills_for(scaled_add().problem, regime)
    assert fills["x"] == regime.main
    assert fills["bias"] == regime.side
    assert fills["bias"].kind not in ("ones", "zeros", "constant")


def test_inputs_that_are_not_real_keep_their_rules() -> None:
    index = _spec(Index(axis="rows"), DType.INT64)
    assert fills_for(_with(index), LARGE)["s"] == LARGE.index
    lengths = _spec(Lengths(axis="cols"), DType.INT64)
    assert fills_for(_with(lengths), LARGE)["s"].kind == "edges"
    assert fills_for(_with(_spec(Positive())), LARGE)["s"].kind == "normal"
    assert "scale" not in fills_for(_with(_spec(Positive())), LARGE)["s"].parameters
    assert fills_for(_with(_spec(Probability())), LARGE)["s"] == fill("normal", scale=2.0)
    assert "s" not in fills_for(_with(_spec(Opaque())), LARGE)


def test_half_numbers_are_smaller_so_that_products_fit() -> None:
    half = fills_for(_with(_spec(Real(), DType.FLOAT16)), LARGE)["s"]
    assert half.parameters["scale"] == pytest.approx(5.0)
    assert fills_for(_with(_spec(Real(), DType.BFLOAT16)), LARGE)["s"].parameters["scale"] == 50.0


def test_numbers_that_are_not_finite_come_where_the_domain_has_them() -> None:
    regime = dataclasses.replace(LARGE, others=3)
    found = fills_for(_with(_spec(Real(also=("-inf", "nan")))), regime)
    assert found["s"].parameters[ALSO] == "nan"
    assert ALSO not in found["x"].parameters


def test_main_inputs_have_the_highest_rank_and_at_most_two_dimensions_are_asked() -> None:
    assert main_rank(scaled_add().problem) == 2
    assert main_rank(_with(tensor("cube", "rows", "cols", "cols"))) == 2
    vector = dataclasses.replace(scaled_add().problem, inputs=(tensor("x", "rows"),))
    assert main_rank(vector) == 1


def test_scalars_are_usual_or_drawn_and_those_of_sizes_are_left_to_the_sizes() -> None:
    made = scaled_add().problem
    size = ScalarSpec(name="n", dtype=DType.INT64, domain=SizeOf(axis="rows"))
    made = dataclasses.replace(made, inputs=(*made.inputs, size))
    workload = Workload(id="w", axes={}, sources={"gain": ScalarSource(value=3.5)})
    assert scalars_for(made, workload, seed=1) == {"gain": 3.5}
    assert scalars_for(made, None, seed=1) == {"gain": 1.0}
    drawn = [scalars_for(made, workload, seed=seed, usual=False)["gain"] for seed in (1, 2)]
    assert len({*drawn, 3.5}) == 3
    assert all(0.5 <= value <= 4.0 for value in drawn)
