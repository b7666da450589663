"""Sums of 8-bit products in the short accumulators of tensor cores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cuassay.model.device import CPU
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import draws_as_one, make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.short_sums import short_sum
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

E4M3 = torch.float8_e4m3fn


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() @ b.float().t()).bfloat16()


def _step_by_step(a: np.ndarray, b: np.ndarray) -> float:
    """One dot product by the rule, number by number: 32 products a step, 13 fraction bits."""
    total = 0.0
    for start in range(0, len(a), 32):
        products = [
            x * y for x, y in zip(a[start : start + 32], b[start : start + 32], strict=True)
        ]
        sizes = [
            np.frexp(x)[1] - 1 + np.frexp(y)[1] - 1
            for x, y in zip(a[start : start + 32], b[start : start + 32], strict=True)
            if x and y
        ]
        if total:
            sizes.append(np.frexp(total)[1] - 1)
        if not sizes:
            continue
        grid = 2.0 ** (max(sizes) - 13)
        added = sum(np.trunc(p / grid) for p in [*products, total]) * grid
        if added:
            own = 2.0 ** (np.frexp(added)[1] - 1 - 13)
            added = np.trunc(added / own) * own
        total = added
    return total


def test_a_sum_follows_the_rule_number_by_number() -> None:
    a = (normal(3, 200) * 8).to(E4M3).double()
    b = (normal(200, 5, seed=1) * 8).to(E4M3).double()
    made = short_sum(a, b)
    for row in range(3):
        for column in range(5):
            expected = _step_by_step(a[row].numpy(), b[:, column].numpy())
            assert float(made[row, column]) == expected
    assert torch.equal(short_sum(a[0], b[:, 0]), made[0, 0])
    assert torch.equal(short_sum(torch.stack([a, a]), torch.stack([b, b]))[1], made)


def _truth(a: torch.Tensor, b: torch.Tensor, precision: Precision) -> OutputTruth:
    family = family_of(precision, DType.BFLOAT16)
    output = spec("bfloat16", "m", "n")
    return make_truth(_product, [a, b], [output], seed=1, family=family).outputs[0]


def test_short_accumulators_are_graded_fp8() -> None:
    """Of one sign a sum leans toward zero with every step."""
    a, b = (normal(24, 4096, seed=n).abs().to(E4M3) for n in range(2))
    short = short_sum(a.double(), b.double().t()).bfloat16()
    for precision in (Precision.STRICT, Precision.FP8):
        truth = _truth(a, b, precision)
        assert measure(_product(a, b), truth).passed
        assert measure(short, truth).passed is (precision is Precision.FP8)


def _product_of_halves(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.to(torch.bfloat16) @ b.to(torch.bfloat16).t()


@pytest.mark.parametrize("codes", [True, False])
def test_codes_that_a_reference_casts_to_bfloat16_may_be_summed_in_short_accumulators(
    codes: bool,
) -> None:
    """An FP8 product is written so: bfloat16 holds every code. Other numbers in it are no codes."""
    a, b = (normal(24, 4096, seed=n).abs().to(E4M3 if codes else torch.bfloat16) for n in range(2))
    short = short_sum(a.double(), b.double().t()).bfloat16()
    for precision in (Precision.MIXED, Precision.FP8):
        family = family_of(precision, DType.BFLOAT16)
        output = spec("bfloat16", "m", "n")
        made = make_truth(_product_of_halves, [a, b], [output], seed=1, family=family).outputs[0]
        assert measure(_product_of_halves(a, b), made).passed
        assert measure(short, made).passed is (codes and precision is Precision.FP8)


def test_draws_in_short_accumulators_leave_other_draws_in_one_run() -> None:
    a, b = (normal(4, 32, seed=n).to(E4M3) for n in range(2))
    _truth(a, b, Precision.FP8)
    output = spec("bfloat16", "m", "n")
    assert draws_as_one(
        _product, [output], of_inputs=1, of_outputs=1, device=CPU, budget_bytes=None
    )


def test_sums_kept_in_bfloat16_are_no_short_accumulators() -> None:
    a, b = (normal(24, 2048, seed=n).to(E4M3) for n in range(2))
    coarse = torch.zeros(24, 24, dtype=torch.bfloat16)
    for start in range(0, 2048, 32):
        coarse += a[:, start : start + 32].float() @ b[:, start : start + 32].float().t()
    assert not measure(coarse, _truth(a, b, Precision.FP8)).passed
