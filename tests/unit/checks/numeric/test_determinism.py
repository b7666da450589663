"""DET001: races are wrong, float atomics are advice, a nondeterministic reference excuses."""

from __future__ import annotations

import torch

from cuassay.checks.numeric.determinism import Det001
from cuassay.model.outcome import FindingClass
from cuassay.model.scenario import Call, HashResult
from cuassay.model.verdict import Profile
from tests.support.fake_trial import Function, examine, row_sum


def racy() -> Function:
    calls: list[int] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        y = x.sum(-1)
        if len(calls) == 3:
            y[0] *= 0.5
        return y

    return call


def drops_a_block() -> Function:
    calls: list[int] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x.sum(-1) if len(calls) % 2 else x[:, 1:].sum(-1)

    return call


def atomics() -> Function:
    calls: list[int] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        turned = x.roll(7 * len(calls), dims=1)
        y = turned[:, 0].clone()
        for column in range(1, x.shape[1]):
            y += turned[:, column]
        return y

    return call


def test_a_result_that_is_wrong_once_is_found() -> None:
    found = examine(Det001(), row_sum(), racy)
    assert found
    assert found[0].finding_class is FindingClass.WRONG
    assert "the same call gives right and wrong results" in found[0].message


def test_a_result_that_is_wrong_every_other_time_is_found() -> None:
    found = examine(Det001(), row_sum(), drops_a_block)
    assert "1 of 2 different results are wrong" in found[0].message


def test_float_atomics_are_advice() -> None:
    found = examine(Det001(), row_sum(), atomics)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.ADVICE}
    assert all(finding.condition.startswith("deterministic: ") for finding in found)
    assert all((finding.share or 2.0) < 1.0 for finding in found)


def test_float_atomics_are_nothing_where_the_reference_has_them() -> None:
    trial = row_sum()
    trial.deterministic_reference = False
    assert examine(Det001(), trial, atomics) == []
    found = examine(Det001(), trial, racy)
    assert {finding.finding_class for finding in found} == {FindingClass.WRONG}


def test_equal_bits_pass_right_or_wrong() -> None:
    assert examine(Det001(), row_sum(), lambda: lambda x: x.sum(-1)) == []
    assert examine(Det001(), row_sum(), lambda: lambda x: 2 * x.sum(-1)) == []


def test_the_profile_sets_the_number_of_calls() -> None:
    for profile, count in ((Profile.QUICK, 5), (Profile.STANDARD, 20), (Profile.DEEP, 100)):
        trial = row_sum()
        trial.profile = profile
        scenario = next(Det001().propose(trial))
        assert sum(isinstance(step, Call) for step in scenario.steps) == count
        assert sum(isinstance(step, HashResult) for step in scenario.steps) == count
