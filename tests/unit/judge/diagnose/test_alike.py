"""A mutant explains wrong numbers where it gives these numbers, not where both are far off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch

from cuassay.judge.diagnose.alike import WrongOutputs, _unexplained
from cuassay.model.case import Case

TRUTH = torch.linspace(1.0, 9.0, 50, dtype=torch.float64)


def _share(answer: torch.Tensor, mutant: torch.Tensor) -> float | None:
    truth: Any = SimpleNamespace(
        outputs=(SimpleNamespace(value=TRUTH, scale=torch.full_like(TRUTH, 1e-6)),)
    )
    case = Case(label="c", axes={"n": 50}, fills={}, seed=1)
    wrong = WrongOutputs(case=case, outputs=(answer.float(),), truth=cast(Any, truth))
    return _unexplained(wrong, (mutant.float(),))


def test_equal_numbers_explain_all() -> None:
    share = _share(TRUTH * 0.5, TRUTH * 0.5)
    assert share is not None
    assert share < 1e-9


def test_numbers_nearer_to_the_truth_explain_nothing() -> None:
    share = _share(TRUTH * 0.5, TRUTH * 0.9)
    assert share is not None
    assert share > 0.5


def test_two_answers_that_are_both_nearly_nothing_are_not_alike() -> None:
    """Both are as far from the truth as nothing is, and fifty times from each other."""
    share = _share(TRUTH * 2e-3, TRUTH * 4e-5)
    assert share is not None
    assert share > 0.5


def test_roundings_of_an_answer_that_is_nearly_nothing_are_no_difference() -> None:
    share = _share(TRUTH * 1e-9, TRUTH * 2e-9)
    assert share is not None
    assert share < 0.02
