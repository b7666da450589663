"""Inputs that depend on one another: rows of one made of the rows of another.

Parameters of a Fill: `like` names the other input, which has the same shape, or is a matrix whose
transpose has it; `like_first` says which relation the first row has. The relations take turns, a
row each, unless `like_step` is 0; a tensor of one axis is one row. Drawn alone, no two inputs are
equal or opposite, and none rises where the other one falls.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from cuassay.inputs.legal import bounded
from cuassay.inputs.packed import is_packed
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar, TensorSpec

_MATRIX = 2  # axes
_LARGEST = 64.0  # of a number divided by another: it stays within what products of 16 bits hold
RELATIONS = ("equal", "opposite", "inverse", "in its order", "against its order")


def related(own: torch.Tensor, other: torch.Tensor, *, first: int, step: int = 1) -> torch.Tensor:
    """Return `own` with its rows made of those of `other`, in its dtype; both have one shape.

    Equal, opposite or one divided by the other's numbers (to +-64, and no zeros), else its own
    numbers in the order of the other's, or in the opposite order. Pairs of 4-bit numbers are equal.
    """
    if is_packed(own):
        return other.clone()
    rows = own.double().reshape(-1, own.shape[-1]) if own.dim() > 1 else own.double().reshape(1, -1)
    others = other.double().reshape(rows.shape)
    smallest = torch.where(others < 0, -1.0 / _LARGEST, 1.0 / _LARGEST)
    inverse = 1.0 / torch.where(others.abs() < 1.0 / _LARGEST, smallest, others)
    places = others.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    rising = rows.sort(dim=-1).values
    made = (others, -others, inverse, rising.gather(-1, places), rising.flip(-1).gather(-1, places))
    turn = (step * torch.arange(len(rows), device=rows.device) + first) % len(RELATIONS)
    for number, values in enumerate(made):
        rows = torch.where((turn == number)[:, None], values, rows)
    return rows.reshape(own.shape).to(own.dtype)


def relate(
    problem: Problem, case: Case, values: Mapping[str, torch.Tensor | Scalar]
) -> dict[str, torch.Tensor]:
    """Return the inputs that a case makes of others, within their domains."""
    made: dict[str, torch.Tensor] = {}
    for spec in problem.inputs:
        parameters = case.fills[spec.name].parameters if spec.name in case.fills else {}
        own, other = values[spec.name], values.get(str(parameters.get("like")))
        if not isinstance(spec, TensorSpec) or not isinstance(own, torch.Tensor):
            continue
        if isinstance(other, torch.Tensor) and other.dim() == _MATRIX and other.shape != own.shape:
            other = other.mT
        if isinstance(other, torch.Tensor) and other.shape == own.shape:
            first, step = parameters.get("like_first", 0), parameters.get("like_step", 1)
            assert isinstance(first, int | float)
            assert isinstance(step, int | float)
            rows = related(own, other, first=int(first), step=int(step))
            made[spec.name] = bounded(spec, rows)
    return made
