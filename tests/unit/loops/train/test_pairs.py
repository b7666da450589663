"""Gradients compared at one state: what a pair measures, and which groups have none."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay_loops.train.pairs import TABLE, hot_rows, measure_pairs, row_name, row_of

_TRUSTED = torch.tensor([3.0, 4.0])


def _measured(candidate: torch.Tensor, noise: torch.Tensor | None = None) -> dict[str, object]:
    pairs = measure_pairs(
        {"w": _TRUSTED}, {"w": _TRUSTED if noise is None else noise}, {"w": candidate}
    )
    pair = pairs["w"]
    return {name: getattr(pair, name) for name in pair.__slots__}


def test_a_scaled_gradient_has_a_bias_and_its_direction() -> None:
    found = _measured(2 * _TRUSTED, noise=_TRUSTED + torch.tensor([-0.8, 0.6]))
    assert found["ratio"] == pytest.approx(2.0)
    assert found["cosine"] == pytest.approx(1.0)
    assert found["bias"] == pytest.approx(1.0)
    assert found["deviation"] == pytest.approx(1.0)
    assert found["noise_deviation"] == pytest.approx(0.2)
    assert found["noise_bias"] == pytest.approx(0.0, abs=1e-6)  # at right angles
    assert found["finite"] is True


def test_a_gradient_of_zeros_is_off_by_all_of_it() -> None:
    found = _measured(torch.zeros(2))
    assert (found["ratio"], found["cosine"]) == (0.0, 0.0)
    assert found["bias"] == pytest.approx(-1.0)
    assert found["deviation"] == pytest.approx(1.0)


def test_a_gradient_that_is_not_finite_is_told_as_such() -> None:
    found = _measured(torch.tensor([math.nan, 1.0]))
    assert found["finite"] is False
    assert found["deviation"] == math.inf


def test_what_the_trusted_run_leaves_empty_is_not_compared() -> None:
    zero, bad = torch.zeros(2), torch.tensor([math.inf, 0.0])
    pairs = measure_pairs(
        {"zero": zero, "bad": bad, "w": _TRUSTED}, {"zero": zero, "bad": bad, "w": bad},
        {"zero": _TRUSTED, "bad": zero, "w": _TRUSTED},
    )  # fmt: skip
    assert pairs == {}


def test_rows_of_the_table_are_groups_of_their_own() -> None:
    table = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    wrong = table.clone()
    wrong[1] = 0.0
    pairs = measure_pairs({TABLE: table}, {TABLE: table}, {TABLE: wrong}, rows=(1, 2))
    assert set(pairs) == {TABLE, row_name(1), row_name(2)}
    assert pairs[row_name(1)].deviation == pytest.approx(1.0)
    assert pairs[row_name(2)].deviation == 0.0
    assert pairs[TABLE].deviation == pytest.approx(2 / math.sqrt(14))


def test_names_of_rows() -> None:
    assert row_of(row_name(17)) == 17
    assert row_of(TABLE) is None
    assert row_of("lm_head") is None


def test_the_most_frequent_tokens_are_watched() -> None:
    weights = torch.zeros(100)
    weights[[5, 9, 3]] = torch.tensor([1.0, 3.0, 2.0])
    assert hot_rows(weights) == (9, 3, 5)
    assert len(hot_rows(torch.ones(100))) == 16
