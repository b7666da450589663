"""SHP001: tails, baked sizes, refusals inside and outside of what was promised."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.numeric.listed_sizes import refusal_condition, settings, sizes_in_words
from cuassay.checks.numeric.shapes import Shp001
from cuassay.model.outcome import FindingClass
from tests.support.fake_trial import FakeTrial, examine, row_sum, run_one, scaled_add


def full_tiles_only(x: torch.Tensor) -> torch.Tensor:
    whole = x.shape[1] // 8 * 8
    return x[:, :whole].sum(-1)


def baked_size(x: torch.Tensor) -> torch.Tensor:
    return x[:, :64].sum(-1)


def refuses(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] not in (32, 64):
        raise ValueError(f"cols must be 32 or 64, got {x.shape[1]}")
    return x.sum(-1)


def crashes(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] not in (32, 64):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return x.sum(-1)


def leaves(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] not in (32, 64):
        raise SystemExit(0)
    return x.sum(-1)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("call", [full_tiles_only, baked_size])
def test_silent_wrong_numbers_are_wrong_declared_or_not(declared: bool, call: object) -> None:
    assert callable(call)
    found = examine(Shp001(), row_sum(declared=declared), lambda: call)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.WRONG}
    assert any("cols = " in finding.message for finding in found)


def test_a_refusal_inside_the_declared_domain_is_wrong() -> None:
    found = examine(Shp001(), row_sum(declared=True), lambda: refuses)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.WRONG}
    assert "refuses to run: ValueError: cols must be 32 or 64" in found[0].message
    assert "within the problem's domain" in found[0].message
    assert "Traceback" in found[0].evidence


def test_a_refusal_where_nothing_is_declared_is_a_condition_of_use() -> None:
    found = examine(Shp001(), row_sum(declared=False), lambda: refuses)
    assert found
    assert {finding.finding_class for finding in found} == {FindingClass.UNSAFE}
    conditions = {finding.condition for finding in found}
    assert any("cols in {32, 64}" in condition for condition in conditions)
    assert all(condition.startswith("shapes: ") for condition in conditions)


@pytest.mark.parametrize("call", [crashes, leaves])
def test_a_crash_is_wrong_declared_or_not(call: object) -> None:
    assert callable(call)
    for declared in (True, False):
        found = examine(Shp001(), row_sum(declared=declared), lambda: call)
        assert {finding.finding_class for finding in found} == {FindingClass.WRONG}
        assert {finding.code for finding in found} == {"SHP001"}


@pytest.mark.parametrize("declared", [True, False])
def test_an_honest_kernel_is_silent(declared: bool) -> None:
    trial = row_sum(declared=declared)
    assert examine(Shp001(), trial, lambda: lambda x: x.sum(-1)) == []


def test_what_the_reference_refuses_too_is_not_reported() -> None:
    assert examine(Shp001(), row_sum(), lambda: refuses, control=refuses) == []


def test_outside_of_the_domain_everything_is_advice() -> None:
    trial = row_sum()
    shapes = trial.cases("shapes")
    trial.plans["shapes"] = tuple(dataclasses.replace(c, in_domain=False) for c in shapes)
    refused = examine(Shp001(), trial, lambda: refuses)
    wrong = examine(Shp001(), trial, lambda: full_tiles_only)
    assert refused
    assert wrong
    assert {finding.finding_class for finding in (*refused, *wrong)} == {FindingClass.ADVICE}


def test_a_size_that_runs_out_of_memory_is_a_condition_like_any_refusal() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        raise MemoryError

    trial = row_sum()
    scenario = next(Shp001().propose(trial))
    finding, *_ = Shp001().judge(trial, scenario, run_one(trial, call, scenario)).findings
    assert "MemoryError" in finding.message


def test_an_empty_shape_inside_the_domain_must_work() -> None:
    trial = empty_rows()
    assert examine(Shp001(), trial, lambda: lambda x: x.sum(-1)) == []

    def call(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0], "grid is empty"
        return x.sum(-1)

    found = examine(Shp001(), trial, lambda: call)
    assert [finding.finding_class for finding in found] == [FindingClass.WRONG]
    assert "rows = 0" in found[0].message


def empty_rows() -> FakeTrial:
    """Return a row sum whose batch may be empty, tried at that shape alone."""
    trial = row_sum()
    axes = tuple(dataclasses.replace(axis, minimum=0) for axis in trial.problem.var_axes())
    trial.problem = dataclasses.replace(trial.problem, axes=axes)
    case = trial.cases("small")[0]
    trial.plans["shapes"] = (dataclasses.replace(case, axes={"rows": 0, "cols": 32}),)
    return trial


def test_conditions_name_only_axes_that_nobody_promised() -> None:
    trial = row_sum(declared=False)
    case = trial.cases("small")[0]
    listed = dataclasses.replace(case, axes={"rows": 16, "cols": 32})
    assert refusal_condition(trial.problem, listed) == ""
    odd = dataclasses.replace(case, axes={"rows": 16, "cols": 33})
    condition = refusal_condition(trial.problem, odd)
    assert condition == "shapes: only the sizes of its workloads (cols in {32, 64})"
    assert sizes_in_words(trial.problem, odd) == "cols = 33"
    assert refusal_condition(row_sum().problem, odd) == ""


def test_another_combination_of_listed_sizes_is_a_condition_too() -> None:
    trial = scaled_add(declared=False)
    case = dataclasses.replace(trial.cases("small")[0], axes={"rows": 16, "cols": 64})
    assert "combinations" in refusal_condition(trial.problem, case)


def test_host_checks_also_run_at_a_listed_shape_where_nothing_is_declared() -> None:
    assert {"rows": 16, "cols": 32} in settings(row_sum(declared=False))
    assert len(settings(row_sum(declared=True))) == 1
