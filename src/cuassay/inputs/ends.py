"""Cases at the ends of domains: uniform masks and indices, least and largest values, zeros.

A branch for a mask that blocks nothing, a clamp just above the least scale that callers pass, a
step that is left out where all gradients are zero: random data of one size goes past them. One
case has rows of many kinds side by side, so that a fault of one kind shows at the price of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from math import prod

from cuassay.inputs.closed_gates import closed_gates
from cuassay.inputs.fills import family
from cuassay.inputs.geometry import tensor_inputs
from cuassay.inputs.planner import Planner
from cuassay.inputs.real import PATCHES
from cuassay.inputs.regimes import NUMERIC, fill, fills_for, main_rank
from cuassay.inputs.related import RELATIONS
from cuassay.inputs.scalars import at_declared_ends, near_powers
from cuassay.inputs.seeds import derive
from cuassay.model.axes import shape_of
from cuassay.model.case import Case, Fill
from cuassay.model.domain import (
    Choice,
    Index,
    IntegerRange,
    Opaque,
    Positive,
    Probability,
    Real,
    Swizzled,
)
from cuassay.model.problem import TensorSpec

_ELEMENTS = 1 << 13
_PATCHWORKS = 4
_NEAR = 2.0  # times the least value, or the largest divided by it: some elements lie at the end


def ends(planner: Planner) -> tuple[Case, ...]:
    """Return as many cases as the budget has, the most telling first, beside one of closed gates.

    The reference may be undefined in one of them (a soft-max of nothing): who judges asks truth.
    """
    return (*closed_gates(planner), *tuple(_ends(planner))[: planner.budget.end_cases])


def _ends(planner: Planner) -> Iterator[Case]:
    problem, sizes = planner.problem, planner.few(min(_ELEMENTS, planner.budget.small_elements))
    plain = fills_for(problem, NUMERIC[0])
    free = [spec for spec in tensor_inputs(problem) if spec.name in plain]
    real = [
        spec
        for spec in free
        if family(spec) == "real"
        and not isinstance(spec.domain, Opaque | Positive | Probability | Swizzled)
    ]
    least = {spec.name: end for spec in free if (end := _end(spec, largest=False))}
    largest = {spec.name: end for spec in free if (end := _end(spec, largest=True))}
    main = [spec for spec in real if len(spec.shape) >= main_rank(problem)]
    begin = derive(planner.root_seed, "patchwork") % len(PATCHES)
    patched: list[tuple[int, str, Fill]] = []
    for spec in main:
        # Where an input has fewer rows than there are kinds, the next case begins where this ends.
        rows = max(prod(shape_of(spec.shape, sizes)[:-1]), 1)
        for turn in range(-(-len(PATCHES) // rows)):
            one = fill("patchwork", first=float(begin + turn * rows))
            patched.append((turn, spec.name, one))
    patched = sorted(patched, key=lambda one: one[0])[:_PATCHWORKS]
    rows_of_one = {name: one for _, name, one in patched[:1]}
    counted = [
        spec for spec in free if isinstance(spec.domain, IntegerRange) and len(spec.shape) > 1
    ]
    plainly = planner.case(
        "every scalar at its least", sizes, NUMERIC[0], workload=planner.first_workload
    )
    if ended := at_declared_ends(problem, largest=False):
        yield dataclasses.replace(plainly, scalars={**plainly.scalars, **ended})
    pairs = {
        spec.name: before
        for number, spec in enumerate(real)
        if (before := next((o.name for o in real[:number] if o.shape == spec.shape != ()), ""))
    }
    turns = derive(planner.root_seed, "related") % len(RELATIONS)
    relations = {
        name: Fill(kind="normal", parameters={"like": before, "like_first": float(turns + number)})
        for number, (name, before) in enumerate(pairs.items())
    }
    falling = {
        spec.name: fill("sorted", descending=1.0)
        for spec in free
        if isinstance(spec.domain, Index) and not spec.domain.unique
    }
    changes: list[tuple[str, Mapping[str, Fill]]] = [
        *((f"rows of many kinds in {name}, {n}", {name: one}) for n, name, one in patched),
        ("rows of many kinds of integers", {spec.name: fill("patchwork") for spec in counted}),
        ("inputs that depend on one another", relations),
        ("falling indices", falling),
        ("massive channels", {spec.name: fill("massive") for spec in main}),
        ("domains at their least", least and {**rows_of_one, **least}),
        ("domains at their largest", largest and {**rows_of_one, **largest}),
        *((f"{spec.name} zero", {spec.name: fill("zeros")}) for spec in real),
        ("one element of a row leads", {spec.name: fill("leading") for spec in main}),
    ]
    for label, changed in changes:
        if changed:
            case = planner.case(label, sizes, NUMERIC[0], workload=planner.first_workload)
            # What is taken for the round number beside it is wrong here.
            near = near_powers(problem, case.scalars, seed=case.seed)
            yield dataclasses.replace(
                case, fills={**case.fills, **changed}, scalars={**case.scalars, **near}
            )
    if ended := at_declared_ends(problem, largest=True):
        label = "every scalar at its largest"
        yield dataclasses.replace(plainly, label=label, scalars={**plainly.scalars, **ended})


def _end(spec: TensorSpec, *, largest: bool) -> Fill | None:
    """Return what fills an input with the least or the largest that its domain has."""
    match spec.domain:
        case Opaque():
            return None
        case Real(low=float() | int() as low, high=float() | int() as high):
            return fill("constant", value=float(high if largest else low))
        case Positive(low=low, high=high):
            return fill("normal", scale=high / _NEAR if largest else low * _NEAR)
        case Probability():
            return fill("constant") if largest else fill("one_hot")
        case IntegerRange(low=low, high=high):
            value = float(high if largest else low)
            return Fill(kind="explicit", parameters={"values": (value,)})
        case Choice(values=values):
            value = float(len(values) - 1 if largest else 0)
            return Fill(kind="explicit", parameters={"values": (value,)})
        case Index(sentinels=marks) if marks and largest:
            return fill("sentinel", all=1.0)
        case Index() if largest:
            # Not 0, 1, 2, ..., though it begins and ends so: a kernel that looks there is wrong.
            return fill("arange", reorder=1.0)
        case _:
            pass
    of_family = {
        "mask": ("ones", "zeros"),
        "packed": ("zeros", "ones"),
        "lengths": ("zeros", "full"),
        "offsets": ("ragged", "even"),
        "index": ("single_hot", "single_hot"),
    }
    kinds = of_family.get(family(spec))
    return fill(kinds[largest]) if kinds else None
