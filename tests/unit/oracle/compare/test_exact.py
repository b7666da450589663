"""Exact answers: integers as they are, codes one step off where trusted runs flip too."""

from __future__ import annotations

import torch

from cuassay.model.dtype import DType
from cuassay.oracle.compare.exact import ExactResult, judge_choice, judge_exact
from cuassay.oracle.truth.types import OutputTruth


def _truth(value: torch.Tensor, dtype: DType = DType.INT32, **changes: object) -> OutputTruth:
    return OutputTruth(name="y", dtype=dtype, value=value, scale=None, **changes)  # type: ignore[arg-type]


def _passed(found: ExactResult) -> bool:
    return all(one.value <= one.limit for one in found.statistics)


def test_integers_are_equal_or_wrong_outside_ambiguous_places() -> None:
    truth = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    found = judge_exact(torch.tensor([1, 9, 3, 9], dtype=torch.int32), _truth(truth))
    assert (found.differing, found.worst, _passed(found)) == (2, 1, False)
    ambiguous = torch.tensor([False, True, False, True])
    found = judge_exact(
        torch.tensor([1, 9, 3, 9], dtype=torch.int32), _truth(truth, ambiguous=ambiguous)
    )
    assert (found.differing, found.worst, _passed(found)) == (0, None, True)


def _codes(*values: float) -> torch.Tensor:
    return torch.tensor(values).to(torch.float8_e4m3fn)


def test_codes_may_be_one_step_off_as_often_as_trusted_runs_are() -> None:
    truth = _truth(_codes(1.0, 2.0, -3.0, 0.0), DType.FLOAT8_E4M3FN, quantised=True,
                   flips_allowed=2)  # fmt: skip
    assert _passed(judge_exact(_codes(1.0, 2.0, -3.0, -0.0), truth))
    one_step = judge_exact(_codes(1.125, 2.25, -3.0, 0.0), truth)
    assert (one_step.differing, _passed(one_step)) == (2, True)
    assert not _passed(judge_exact(_codes(1.125, 2.25, -3.25, 0.0), truth))  # three flips
    two_steps = judge_exact(_codes(1.0, 2.5, -3.0, 0.0), truth)
    assert (two_steps.worst, _passed(two_steps)) == (1, False)


def test_a_code_of_another_class_is_as_far_as_can_be_and_equal_nan_is_none() -> None:
    nan = float("nan")
    truth = _truth(_codes(nan, 1.0), DType.FLOAT8_E4M3FN, quantised=True, flips_allowed=9)
    assert _passed(judge_exact(_codes(nan, 1.0), truth))
    found = judge_exact(_codes(nan, nan), truth)
    assert (found.statistics[0].value, found.worst) == (255.0, 1)


def test_an_output_without_places_has_no_choice() -> None:
    assert judge_choice(torch.ones(2), _truth(torch.ones(2))) is None
