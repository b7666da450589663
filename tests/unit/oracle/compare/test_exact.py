"""Exact answers: integers as they are, codes one step off where trusted runs flip too."""

from __future__ import annotations

import torch

from cuassay.model.dtype import DType
from cuassay.oracle.compare.exact import ExactResult, judge_choice, judge_exact
from cuassay.oracle.truth.codes import CodeCounts
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


def _coded(value: torch.Tensor, *runs: torch.Tensor, rounds: bool = True) -> OutputTruth:
    """Return the truth of codes of which trusted runs made these."""
    counts = CodeCounts(want=value, names=("rows", "columns")[-value.dim() :])
    for run in runs or (value,):
        counts.take(run)
    return _truth(value, DType.FLOAT8_E4M3FN, codes=counts.limits(rounds=rounds))


def test_codes_may_be_one_step_off_as_often_as_trusted_runs_are() -> None:
    truth = _coded(_codes(1.0, 2.0, -3.0, 0.0))
    assert _passed(judge_exact(_codes(1.0, 2.0, -3.0, -0.0), truth))
    one_step = judge_exact(_codes(1.125, 2.25, -3.0, 0.0), truth)
    assert (one_step.differing, _passed(one_step)) == (2, True)
    assert not _passed(judge_exact(_codes(1.125, 2.25, -3.25, 0.0), truth))  # three flips
    two_steps = judge_exact(_codes(1.0, 2.5, -3.0, 0.0), truth)
    assert (two_steps.worst, _passed(two_steps)) == (1, False)


def test_where_nothing_rounds_no_code_differs() -> None:
    truth = _coded(_codes(1.0, 2.0), rounds=False)
    assert _passed(judge_exact(_codes(1.0, 2.0), truth))
    assert not _passed(judge_exact(_codes(1.0, 2.25), truth))


def test_where_terms_cancel_a_code_may_be_as_far_off_as_twice_a_trusted_one() -> None:
    truth = _coded(_codes(1.0, 2.0, -3.0, 0.0), _codes(1.25, 2.0, -3.0, 0.0))
    assert _passed(judge_exact(_codes(1.5, 2.0, -3.0, 0.0), truth))  # four steps
    assert not _passed(judge_exact(_codes(1.625, 2.0, -3.0, 0.0), truth))
    assert not _passed(judge_exact(_codes(1.0, 2.5, -3.0, 0.0), truth))


def _moved(value: torch.Tensor, where: torch.Tensor, steps: int) -> torch.Tensor:
    bits = value.view(torch.int8).clone()
    bits[where] += steps
    return bits.view(value.dtype)


def test_codes_that_move_one_way_or_on_one_slice_are_wrong() -> None:
    """One code in 20 moves in trusted runs, half of them away from zero."""
    generator = torch.Generator().manual_seed(0)
    value = torch.rand(64, 1024, generator=generator).add_(1.0).to(torch.float8_e4m3fn)

    def run(share: float) -> torch.Tensor:
        chance = torch.rand(value.shape, generator=generator)
        away = _moved(value, chance < share / 2, 1)
        return _moved(away, chance > 1 - share / 2, -1)

    truth = _coded(value, *(run(0.05) for _ in range(8)))
    for share in (0.0, 0.03, 0.05, 0.1):
        assert _passed(judge_exact(run(share), truth))
    assert not _passed(judge_exact(run(0.2), truth))
    one_way = torch.rand(value.shape, generator=generator) < 0.1
    for steps, word in ((1, "farther"), (-1, "nearer")):
        found = judge_exact(_moved(value, one_way, steps), truth)
        failed = [one for one in found.statistics if one.value > one.limit]
        assert failed
        assert all(word in one.group for one in failed), failed
    row = torch.zeros_like(one_way)
    row[17] = torch.rand(1024, generator=generator) < 0.5
    found = judge_exact(_moved(value, row, 1), truth)
    failed = [one for one in found.statistics if one.value > one.limit]
    assert failed
    assert all("axis rows, slice 17" in one.group for one in failed), failed


def test_a_code_of_another_class_is_as_far_as_can_be_and_equal_nan_is_none() -> None:
    nan = float("nan")
    truth = _coded(_codes(nan, 1.0))
    assert _passed(judge_exact(_codes(nan, 1.0), truth))
    found = judge_exact(_codes(nan, nan), truth)
    assert (found.statistics[0].value, found.worst) == (255.0, 1)


def test_an_output_without_places_has_no_choice() -> None:
    assert judge_choice(torch.ones(2), _truth(torch.ones(2))) is None
