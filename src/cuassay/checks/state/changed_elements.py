"""Inputs that differ in one element each: a key of 16 bits is the same for two of so many."""

from __future__ import annotations

import dataclasses
import itertools
import math
from math import prod
from random import Random

from cuassay.checks.base import Trial
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.checks.state.answers import reseeded
from cuassay.checks.state.histories import explicit_is_legal
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.problem import TensorSpec


def free_tensors(trial: Trial, base: Case) -> list[TensorSpec]:
    """Return the inputs whose elements a caller may choose alone, the larger ones first."""
    found = [
        spec
        for spec in trial.problem.inputs
        if isinstance(spec, TensorSpec)
        and explicit_is_legal(spec)
        and (spec.name in base.fills or not base.generator)
    ]
    return sorted(found, key=lambda spec: -prod(shape_of(spec.shape, base.axes)))


def with_change(trial: Trial, base: Case, change: tuple[str, int, float]) -> Case:
    """Return a case with one element changed, as a CallVaried changes it."""
    name, place, value = change
    spec = next(one for one in trial.problem.inputs if one.name == name)
    assert isinstance(spec, TensorSpec)
    fill = with_parameters(own_fill(base, spec), {"spoil": (place,), "spoil_with": value})
    label = f"element {place} of {name} changed"
    return dataclasses.replace(base, label=label, fills={**base.fills, name: fill})


def changed_elements(trial: Trial, base: Case) -> tuple[tuple[str, int, float], ...]:
    """Return elements in random order, each with a number that another draw has somewhere.

    So many that a key of 16 bits, however it is made, is the same for two of them. Of each tensor
    there are as many as it has, for its own key may be all that a kernel looks at.
    """
    import torch

    random = Random(trial.seed("STATE001", "varied"))
    before = trial.inputs(base)
    other = reseeded(base, label="drawn", seed=trial.seed("STATE001", "drawn"))
    drawn, most = trial.inputs(other), trial.effort.varied_calls
    each: list[list[tuple[str, int, float]]] = []
    for spec in free_tensors(trial, base):
        if spec.name in trial.problem.updated:
            continue
        old, new = before[spec.name], drawn[spec.name]
        if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
            continue
        numbers, places = new.double().view(-1).tolist(), old.double().view(-1).tolist()
        pairs = ((random.randrange(len(places)), random.choice(numbers)) for _ in range(most))
        if places and all(map(math.isfinite, numbers)):
            # Each once: a small tensor has few, and others have the more.
            found = dict.fromkeys((spec.name, at, one) for at, one in pairs if places[at] != one)
            each.append(list(found))
    turns = [one for turn in itertools.zip_longest(*each) for one in turn if one is not None]
    return tuple(turns[:most])
