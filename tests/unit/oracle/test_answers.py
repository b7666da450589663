"""A failing answer is held against the reference's own, then against truth under another seed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from cuassay.model.precision import Precision
from cuassay.oracle.answers import judge_answer, spec_of
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.types import Truth

_GIVEN = torch.rand(64, 32, generator=torch.Generator().manual_seed(1))


def _truth(family: Precision, *, drawn: int, rise: float, asked: list[int]) -> Truth:
    """Return the truth of row sums; under another seed than 0 it is higher by `rise`."""
    asked.append(drawn)
    raised = rise if drawn else 0.0
    return make_truth(
        lambda given: [given.sum(1) + raised], [_GIVEN], [spec_of("out", _GIVEN[:, 0])], seed=drawn
    )


@pytest.mark.parametrize(
    ("error", "own_error", "rise", "passed", "undecided", "seeds"),
    [
        pytest.param(0.0, 0.0, 0.0, True, False, {0}, id="right"),
        pytest.param(1.0, 0.0, 0.0, False, False, {0, 1}, id="wrong under both seeds"),
        pytest.param(1.0, 0.0, 1.0, True, False, {0, 1}, id="wrong under the first seed alone"),
        pytest.param(1.0, 1.0, 0.0, True, True, {0}, id="the reference's own fails too"),
        pytest.param(2.0, 0.0, 1.0, True, True, {0, 1}, id="its own fails under the second seed"),
    ],
)
def test_a_failure_counts_if_it_shows_under_both_seeds(
    error: float, own_error: float, rise: float, passed: bool, undecided: bool, seeds: set[int]
) -> None:
    sums: Tensor = _GIVEN.sum(1)
    asked: list[int] = []
    truths = [partial(_truth, drawn=drawn, rise=rise, asked=asked) for drawn in (0, 1)]
    compared = judge_answer(sums + error, 0, sums + own_error, truths, policy=Precision.STRICT)
    assert (compared.passed, bool(compared.undecided)) == (passed, undecided)
    assert set(asked) == seeds
