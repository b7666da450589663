"""DET002: bits that depend on the batch are advice, wrong numbers and races are left to others."""

from __future__ import annotations

import dataclasses

import torch

from cuassay.checks.numeric.batch_invariance import Det002
from cuassay.model.outcome import FindingClass, Severity
from cuassay.model.relation import RowsIndependent
from cuassay.model.verdict import Profile
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    gather,
    judged,
    problem,
    row_sum,
    run_one,
    tensor,
    with_oracle,
)


def summed(x: torch.Tensor, parts: int) -> torch.Tensor:
    """Return the sum of each row: columns one after another, in parts of their own."""
    total = torch.zeros(len(x))
    for part in x.chunk(parts, -1):
        own = torch.zeros(len(x))
        for column in part.unbind(-1):
            own = own + column
        total = total + own
    return total


def fixed(x: torch.Tensor) -> torch.Tensor:
    return summed(x, 4)


def by_batch(x: torch.Tensor) -> torch.Tensor:
    return summed(x, 4 if len(x) < 9 else 1)


def alone(x: torch.Tensor) -> torch.Tensor:
    return summed(x, 4 if len(x) == 1 else 1)


def trial() -> FakeTrial:
    """Return y = x.sum(-1) with a reference whose bits are the same in every batch."""
    made = row_sum()
    return with_oracle(FakeTrial(made.problem, lambda x: summed(x, 1)))


def test_a_split_chosen_by_batch_size_is_advice_that_can_bind() -> None:
    found = examine(Det002(), trial(), lambda: by_batch)
    assert found
    for finding in found:
        assert finding.finding_class is FindingClass.ADVICE
        assert finding.severity is Severity.LOW
        assert finding.condition == "batch-invariant: the last bits of y depend on the batch"
    assert "(a smaller batch against all 13)" in found[0].message


def test_a_fixed_order_is_silent() -> None:
    for profile in (Profile.QUICK, Profile.STANDARD):
        made = dataclasses.replace(trial(), profile=profile)
        assert examine(Det002(), made, lambda: fixed) == []


def test_what_the_reference_does_is_reported_for_nobody() -> None:
    assert examine(Det002(), trial(), lambda: by_batch, control=by_batch) == []


def test_a_reference_that_differs_on_one_slice_alone_excuses_that_only() -> None:
    (found,) = examine(Det002(), trial(), lambda: by_batch, control=alone)
    assert "a smaller batch" in found.message


def test_wrong_numbers_are_left_to_the_relations() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return by_batch(x) * (1.5 if len(x) == 1 else 1.0)

    found = examine(Det002(), trial(), lambda: kernel)
    assert not any("one slice alone" in finding.message for finding in found)


def test_results_that_differ_from_run_to_run_are_left_to_det001() -> None:
    def racy() -> Function:
        calls: list[int] = []

        def call(x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return summed(x.roll(len(calls), 1), 3)

        return call

    assert examine(Det002(), trial(), racy) == []


def test_a_declared_batch_is_used_and_others_are_not() -> None:
    made = trial()
    declared = dataclasses.replace(made.problem, relations=(RowsIndependent(axis="rows"),))
    made = dataclasses.replace(made, problem=declared)
    scenarios = list(Det002().propose(made))
    assert [scenario.relation for scenario in scenarios] == [RowsIndependent(axis="rows")] * 2
    assert examine(Det002(), made, lambda: by_batch)


def test_no_batch_is_a_reason_to_skip() -> None:
    made = problem(
        "total",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )
    skipped = Det002().skip(FakeTrial(made, lambda x: x.sum(0)))
    assert skipped.startswith("no axis is known along which")
    assert Det002().skip(row_sum()) == ""
    assert Det002().skip(gather()) == ""


def test_a_run_that_did_not_end_says_nothing() -> None:
    made = trial()
    scenario = next(iter(Det002().propose(made)))

    def refuses(x: torch.Tensor) -> torch.Tensor:
        if len(x) < 9:
            raise ValueError("too few rows")
        return fixed(x)

    check = Det002()
    run = run_one(made, refuses, scenario)
    assert not check.judge(made, scenario, run).findings
    assert judged(check, made, scenario, run)  # the judge reports the exception itself
