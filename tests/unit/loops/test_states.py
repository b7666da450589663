"""States of loops as cases: data that gives the same inputs again, and only where they fit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.catalog import registry
from cuassay.model import serial
from cuassay.model.case import DECODING, TRAINING, Case
from cuassay.model.device import CPU
from cuassay.model.problem import ConstAxis, Problem, VarAxis
from cuassay.model.verdict import Profile
from cuassay_loops import states


def _plan(problem: Problem, kind: str) -> list[Case]:
    return states.plan(problem, kind, profile=Profile.STANDARD, seed=6, device=CPU)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("embedding_grad", TRAINING),
        ("rmsnorm@float32", TRAINING),
        ("paged_attention_decode", DECODING),
        ("rope_neox@float16", DECODING),
    ],
)
def test_a_state_is_data_and_gives_the_same_inputs_again(name: str, kind: str) -> None:
    problem = registry.get(name)
    case = _plan(problem, kind)[1]
    again: Case = serial.loads(Case, serial.dumps(case))
    assert case.state is not None
    first = states.inputs(problem, case.state, CPU)
    states._calls.cache_clear()
    assert again.state is not None
    second = states.inputs(problem, again.state, CPU)
    assert list(first) == [spec.name for spec in problem.inputs]
    for key, value in first.items():
        other = second[key]
        if isinstance(value, torch.Tensor):
            assert isinstance(other, torch.Tensor)
            assert torch.equal(value, other)
            assert value.data_ptr() != other.data_ptr()


def test_operators_without_a_place_have_no_states() -> None:
    assert _plan(registry.get("layernorm"), TRAINING) == []
    assert _plan(registry.get("embedding_grad"), DECODING) == []
    assert _plan(registry.get("paged_attention_decode"), TRAINING) == []
    quick = states.plan(
        registry.get("rmsnorm"), TRAINING, profile=Profile.QUICK, seed=1, device=CPU
    )
    assert quick == []


def test_sizes_that_the_problem_excludes_are_passed_over() -> None:
    problem = registry.get("rmsnorm")
    axes = tuple(
        dataclasses.replace(axis, minimum=4096)
        if isinstance(axis, VarAxis) and axis.name == "hidden"
        else axis
        for axis in problem.axes
    )
    assert _plan(dataclasses.replace(problem, axes=axes), TRAINING) == []
    fused = registry.get("embedding_rmsnorm_backward_64k")
    assert _plan(fused, TRAINING) == []  # its tokens could not be learned in time


def test_a_problem_of_the_user_s_is_known_by_its_inputs_and_outputs() -> None:
    problem = dataclasses.replace(registry.get("embedding_rmsnorm_backward"), name="mine")
    axes = tuple(
        dataclasses.replace(axis, value=700) if isinstance(axis, ConstAxis) else axis
        for axis in problem.axes
    )
    case = _plan(dataclasses.replace(problem, axes=axes), TRAINING)[0]
    assert case.axes["vocab"] == 700
