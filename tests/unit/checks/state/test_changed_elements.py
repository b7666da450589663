"""Single elements that change: each is another element or number, and moves that element alone."""

from __future__ import annotations

import dataclasses

import torch

from cuassay.checks.state.changed_elements import changed_elements, free_tensors, with_change
from tests.support.fake_trial import scaled_add


def test_each_change_is_of_an_element_that_is_there_and_of_another_number() -> None:
    trial = scaled_add()
    base = trial.cases("small")[0]
    before = trial.inputs(base)
    changes = changed_elements(trial, base)
    assert len(set(changes)) == len(changes) <= trial.effort.varied_calls
    assert {name for name, _, _ in changes} == {spec.name for spec in free_tensors(trial, base)}
    for name, place, value in changes:
        tensor = before[name]
        assert isinstance(tensor, torch.Tensor)
        assert tensor.reshape(-1)[place] != value


def test_a_change_moves_its_element_alone() -> None:
    trial = scaled_add()
    base = trial.cases("small")[0]
    name, place, value = changed_elements(trial, base)[0]
    before, after = trial.inputs(base), trial.inputs(with_change(trial, base, (name, place, value)))
    for key, old in before.items():
        new = after[key]
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            moved = (old != new).reshape(-1).nonzero().reshape(-1).tolist()
            assert moved == ([place] if key == name else [])


def test_what_a_kernel_updates_does_not_change_alone() -> None:
    trial = scaled_add()
    base = trial.cases("small")[0]
    names = [spec.name for spec in free_tensors(trial, base)]
    trial.problem = dataclasses.replace(trial.problem, updated=(names[0],))
    assert names[0] not in {name for name, _, _ in changed_elements(trial, base)}
