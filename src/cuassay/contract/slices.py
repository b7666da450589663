"""Cases in which slices of the problem's own inputs change that never change by themselves.

What the problem's generator makes has structure that random numbers have not: rows that are
padding, a second half that repeats the first, a last column that is always zero. A kernel that
reads such an input in part is right for all of them. A slice that differs from run to run needs no
case here: a kernel that does not read it is wrong already.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from cuassay.contract.breaks import Values, refused
from cuassay.contract.facts import Distinct, Known, Related, Sorted, Structured
from cuassay.model.case import GENERATED, Case, Fill
from cuassay.model.problem import Problem, TensorSpec
from cuassay.oracle.bits import raw_bytes

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SAMPLED = 4  # places along each other dimension that tell most slices apart
_AT_ONCE = 1 << 24  # words that are looked at together
_MOST_PLACES = 1024  # slices that one case changes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """An axis of an input: the slices that never change, and those that repeat another one."""

    spec: TensorSpec
    dim: int
    still: tuple[int, ...]
    repeated: frozenset[int]


def slice_cases(
    problem: Problem,
    base: Case,
    facts: Sequence[Known],
    *,
    most: int,
    runs: Sequence[Values],
    run: Callable[[Values], Sequence[torch.Tensor]],
    inputs: Callable[[Case], Values],
    seed: Callable[[str], int],
) -> tuple[Case, ...]:
    """Return at most `most` cases that the reference accepts, each with slices of an input changed.

    `runs` are the inputs under several seeds. The slices of an axis are dealt out to as many cases
    as the axis has a share in `most`: one at a time where that suffices. Where other inputs are
    made from the one that changes, or its slice repeats another one, `related` says what belongs
    together. Inputs that are sorted, distinct or structured are left to the cases that break that.
    """
    groups = [set(known.fact.inputs) for known in facts if isinstance(known.fact, Related)]
    ordered = {
        known.fact.input
        for known in facts
        if isinstance(known.fact, Sorted | Distinct | Structured)
    }
    axes = [axis for axis in _axes(problem, runs) if axis.spec.name not in ordered][:most]
    found: list[Case] = []
    before = run(inputs(base)) if axes else ()
    for axis in axes:
        name = axis.spec.name
        count = min(len(axis.still), max(1, most // len(axes)))
        for number in range(count):
            places = axis.still[number::count]
            places = places[:: math.ceil(len(places) / _MOST_PLACES)]
            case = _changed(base, axis, places, seed(f"{name}/{axis.dim}/{number}"))
            others = set().union(*(group for group in groups if name in group)) - {name}
            repeats = {name} if axis.repeated.intersection(places) else set()
            related = tuple(sorted(others or repeats))
            case = dataclasses.replace(case, related=related, in_domain=not related)
            if not refused(problem, case, before, inputs=inputs, run=run):
                found.append(case)
    return tuple(found)


def _axes(problem: Problem, runs: Sequence[Values]) -> Iterator[_Axis]:
    """Yield the axes along which some slices never change, of those that are not all alike."""
    for spec in problem.inputs:
        drawn = [one for values in runs if isinstance(one := values[spec.name], torch.Tensor)]
        # Floats of 8 and 4 bits cannot be compared everywhere.
        narrow = bool(drawn) and drawn[0].is_floating_point() and drawn[0].dtype.itemsize == 1
        if not isinstance(spec, TensorSpec) or not drawn or narrow or not drawn[0].numel():
            continue
        if spec.name in problem.state:
            continue  # never drawn again: API005 loads another state
        for dim, size in enumerate(drawn[0].shape):
            if size < 2:
                continue
            alike = [value for value in drawn if value.shape == drawn[0].shape]
            keys = [row_keys(_sample(value, dim), dim) for value in alike]
            changes = (
                len(keys) > 1 and not torch.stack([keys[0] == other for other in keys]).all(0).any()
            )
            if changes and len(torch.unique(keys[0])) == len(keys[0]):
                continue
            keys = [row_keys(value, dim) for value in alike]
            kinds, which, counts = torch.unique(keys[0], return_inverse=True, return_counts=True)
            if len(kinds) == 1:
                continue  # all alike: a fact of its own, which is broken elsewhere
            same = torch.stack([keys[0] == other for other in keys]).all(dim=0)
            repeated = frozenset((counts[which] > 1).nonzero().reshape(-1).tolist())
            constant = same.nonzero().reshape(-1).tolist()
            still = tuple(sorted({*constant, *repeated}))
            if still:
                yield _Axis(spec=spec, dim=dim, still=still, repeated=repeated)


def _sample(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return a few elements of every slice along a dimension, at the same places of each."""
    steps = [1 if at == dim else math.ceil(size / _SAMPLED) for at, size in enumerate(value.shape)]
    return value[tuple(slice(None, None, step) for step in steps)]


def row_keys(value: torch.Tensor, dim: int) -> torch.Tensor:
    """Return a number of 64 bits for each slice along a dimension; equal slices have equal ones.

    A sum of the slice's bits, in words of an element, times random odd numbers, modulo 2^64. Unlike
    slices have the same one with a probability of 2^-60 or so: rows of a cache are millions, and
    no sort compares them whole.
    """
    word = _WORDS.get(value.dtype.itemsize)
    rows = value.movedim(dim, 0).contiguous()
    rows = (raw_bytes(rows) if word is None else rows.view(word)).reshape(value.shape[dim], -1)
    generator = torch.Generator(device="cpu").manual_seed(dim)
    keys = torch.zeros(len(rows), dtype=torch.int64, device=value.device)
    width = max(1, _AT_ONCE // len(rows))
    for start in range(0, rows.shape[1], width):
        part = rows[:, start : start + width]
        by = torch.randint(-(2**62), 2**62, (part.shape[1],), generator=generator)
        keys += (part.long() * (2 * by + 1).to(value.device)).sum(dim=1)
    return keys


def _changed(base: Case, axis: _Axis, places: tuple[int, ...], seed: int) -> Case:
    name, along = axis.spec.name, axis.spec.shape[axis.dim]
    fill = Fill(
        kind=GENERATED,
        parameters={"slices": places, "slices_axis": axis.dim, "slices_seed": seed % 2**31},
    )
    shown = str(places[0]) if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
    return dataclasses.replace(
        base,
        label=f"{name} with other values in slice {shown} along {along}",
        fills={**base.fills, name: fill},
        fact=f"slice {shown} of {name} along {along} never changes by itself",
    )
