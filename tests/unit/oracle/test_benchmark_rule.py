"""The benchmark's own rule."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.problem import Tolerance
from cuassay.oracle.benchmark_rule import matched_ratio


def test_matched_ratio_counts_elements_within_tolerance() -> None:
    reference = torch.ones(100)
    candidate = reference.clone()
    candidate[0] = 5.0
    assert matched_ratio(candidate, reference, Tolerance()) == (True, 0.99)
    candidate[1] = 5.0
    assert matched_ratio(candidate, reference, Tolerance()) == (False, 0.98)


def test_matched_ratio_fails_on_non_finite_values_and_on_all_zeros() -> None:
    reference = torch.ones(1000)
    broken = reference.clone()
    broken[0] = math.nan
    assert not matched_ratio(broken, reference, Tolerance())[0]
    tiny = torch.full((1000,), 1e-3)
    assert matched_ratio(torch.zeros(1000), tiny, Tolerance()) == (False, 1.0)


def test_matched_ratio_allows_negative_infinity_where_the_tolerance_does() -> None:
    reference = torch.tensor([1.0, -math.inf])
    assert not matched_ratio(reference, reference, Tolerance())[0]
    assert matched_ratio(reference, reference, Tolerance(allow_negative_inf=True)) == (True, 1.0)


def test_matched_ratio_honours_the_cap() -> None:
    reference = torch.ones(1000)
    candidate = reference.clone()
    candidate[0] = 3.0
    assert matched_ratio(candidate, reference, Tolerance())[0]
    assert not matched_ratio(candidate, reference, Tolerance(max_error_cap=1.0))[0]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_matched_ratio_of_empty_and_misshapen_outputs(shape: tuple[int, ...]) -> None:
    empty = torch.empty(shape)
    assert matched_ratio(empty, empty, Tolerance()) == (True, 1.0)
    assert matched_ratio(empty, torch.ones(2), Tolerance()) == (False, 0.0)
