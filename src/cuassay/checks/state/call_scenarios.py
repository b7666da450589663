"""The scenarios of STATE001: the same kernel called again while the world changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from cuassay.checks.base import Trial
from cuassay.checks.interface.inputs_used import pairs_of
from cuassay.checks.numeric.listed_sizes import HOME_ELEMENTS, elements_of, settings
from cuassay.checks.state.answers import moved_names, placed, reseeded, truth_moved
from cuassay.errors import CannotJudgeError
from cuassay.model.axes import resolve, shape_of, smallest_workload_axes
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Index, IntegerRange, Positive, Real
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import (
    Allocate,
    Call,
    PoisonFreed,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    import torch

IN_PLACE = "state: changes in place"
REFILLED = "state: all inputs refilled in place"
ARGUMENTS = "state: one argument changed in place"
ELEMENTS = "state: one element changed in place"
RECYCLED = "state: new tensors in freed and poisoned memory"
INTERLEAVED = "state: shapes in turn"
LATE = "state: late elements changed in place"
CHANGES: Mapping[str, str] = {
    IN_PLACE: "in place, same tensors",
    REFILLED: "in place, same tensors",
    ARGUMENTS: "in place, same tensors",
    ELEMENTS: "a single element, in place",
    RECYCLED: "new tensors where freed ones were",
    INTERLEAVED: "shapes in turn",
    LATE: "the first elements stay, in place",
}
_ELEMENT_LIMIT = 4096
_HEAD = 8192  # elements that stay: caches are validated on a prefix of such a size
_POSITIONS = 4  # tried until one moves truth


def state_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield every scenario at small sizes and, where those may be refused, at listed ones."""
    for number, axes in enumerate(settings(trial)):
        first = placed(trial.cases("small")[0], axes)
        others = [_other(trial, first, k) for k in range(2)]
        refills, elements = [first, others[0], first], _element_chain(trial, axes)
        quick = trial.profile is Profile.QUICK
        if quick:
            yield _in_place(IN_PLACE, [*refills, *elements])
        else:
            yield _in_place(REFILLED, refills)
            if elements:
                yield _in_place(ELEMENTS, elements)
        yield _recycled([first, *others])
        if quick and number:  # a process costs a CUDA context: the rest ran at small sizes
            continue
        for chain in _argument_chains(trial, axes):
            yield _in_place(ARGUMENTS, chain)
        others_shaped = _other_shapes(trial, axes, listed=number > 0)
        if others_shaped:
            yield _interleaved(trial, [first, *others_shaped])
            if not quick:  # what is kept may fit smaller shapes only
                yield _interleaved(trial, [*reversed(others_shaped), first])
    if trial.profile is not Profile.QUICK:
        chain = _late_chain(trial)
        if chain:
            yield _in_place(LATE, chain)


def _other(trial: Trial, case: Case, number: int) -> Case:
    seed = trial.seed("STATE001", "other", number)
    return reseeded(case, label=f"{case.label}, other values {number + 1}", seed=seed)


def _in_place(label: str, cases: Sequence[Case]) -> Scenario:
    steps: list[Step] = []
    for number in range(len(cases)):
        steps += [
            Refill(slot="a", case=number) if number else Allocate(slot="a", case=0),
            Call(slot="a", result=f"r{number}"),
            ReadResult(result=f"r{number}"),
        ]
    return Scenario(label=label, cases=tuple(cases), steps=tuple(steps), fresh=True)


def _recycled(cases: Sequence[Case]) -> Scenario:
    steps: list[Step] = []
    for number in range(len(cases)):
        steps += [
            Allocate(slot="a", case=number),
            Call(slot="a", result="r"),
            ReadResult(result="r"),
            Release(name="r"),
            Release(name="a"),
            PoisonFreed(),
        ]
    return Scenario(label=RECYCLED, cases=tuple(cases), steps=tuple(steps), fresh=True)


def _interleaved(trial: Trial, shapes: Sequence[Case]) -> Scenario:
    """Call every shape in turn, then with other values, then on the very same tensors again."""
    fresh = [_other(trial, case, 2 + number) for number, case in enumerate(shapes)]
    cases = (*shapes, *fresh)
    steps: list[Step] = []
    for number in range(len(cases)):
        steps += [
            Allocate(slot=f"s{number}", case=number),
            Call(slot=f"s{number}", result=f"r{number}"),
            ReadResult(result=f"r{number}"),
        ]
    for number in range(len(shapes)):
        steps += [
            Call(slot=f"s{number}", result=f"again{number}"),
            ReadResult(result=f"again{number}"),
        ]
    return Scenario(label=INTERLEAVED, cases=cases, steps=tuple(steps), fresh=True)


def _other_shapes(trial: Trial, axes: Mapping[str, int], *, listed: bool) -> list[Case]:
    """Return a case of each other small shape, or of the next larger workload.

    The small ones differ in one axis each, then in all: what is kept under a key that lacks
    one size shows only between shapes that share all the others.
    """
    cases = trial.cases("small")
    if not listed:
        by_shape = {tuple(case.axes.items()): case for case in reversed(cases[1:])}
        by_shape.pop(tuple(axes.items()), None)
        return [case for case in cases[1:] if any(case is kept for kept in by_shape.values())]
    sizes = [resolve(trial.problem.axes, w.axes) for w in trial.problem.workloads]
    larger = sorted((s for s in sizes if s != dict(axes)), key=lambda s: sum(s.values()))
    return [placed(cases[0], larger[0])] if larger else []


def _late_chain(trial: Trial) -> list[Case]:
    """Return the smallest workload with each tensor's elements beyond the first 8192 changed.

    Between two changes the plain values are back. Empty where no tensor is that large, or the
    workload is too large for a check that needs no size.
    """
    problem = trial.problem
    if not problem.workloads or not trial.cases("small"):
        return []
    axes = smallest_workload_axes(problem)
    if elements_of(problem, axes) > HOME_ELEMENTS["cuda" if trial.device != "cpu" else "cpu"]:
        return []
    base = placed(trial.cases("small")[0], axes)
    chain: list[Case] = []
    for spec in problem.inputs:
        if isinstance(spec, TensorSpec) and spec.name in base.fills and _explicit_is_legal(spec):
            if prod(shape_of(spec.shape, axes)) <= _HEAD:
                continue
            fill = base.fills[spec.name]
            late = Fill(kind=fill.kind, parameters={**fill.parameters, "salt": 1, "head": _HEAD})
            label = f"{spec.name} changed beyond its first {_HEAD} elements"
            fills = {**base.fills, spec.name: late}
            chain += [base, dataclasses.replace(base, label=label, fills=fills)]
    return chain


def _argument_chains(trial: Trial, axes: Mapping[str, int]) -> list[list[Case]]:
    """Return chains of cases, each different from the one before in one argument.

    A chain starts with every argument moved, so that a kernel that ignores one is wrong from
    its first call on and is not taken for a kernel that keeps one. With scalars there are
    two chains, on small and on large data, where different scalars have an effect.
    """
    pairs = pairs_of(trial)
    scalars = [(b, m) for b, m in pairs if not _is_tensor(trial, b, m)]
    names = list(dict.fromkeys(moved_names(b, m)[0] for b, m in pairs if moved_names(b, m)))
    bases = [base for base, _ in scalars] or [base for base, _ in pairs[:1]]
    moved = {name: m.scalars[name] for b, m in scalars for name in moved_names(b, m)}
    chains = []
    for base in {repr((b.fills, b.seed)): placed(b, axes) for b in bases}.values():
        case = dataclasses.replace(
            base,
            label="every argument moved",
            fills={n: _salted(f) if n in names else f for n, f in base.fills.items()},
            scalars={**base.scalars, **moved},
        )
        chain = [case]
        for name in names:
            case = _put_back(case, base, name)
            chain.append(case)
        chains.append(chain)
    return chains


def _salted(fill: Fill) -> Fill:
    return Fill(kind=fill.kind, parameters={**fill.parameters, "salt": 1})


def _put_back(case: Case, base: Case, name: str) -> Case:
    label = f"{name} put back"
    if name in base.scalars:
        scalars = {**case.scalars, name: base.scalars[name]}
        return dataclasses.replace(case, label=label, scalars=scalars)
    fills = {**case.fills, name: base.fills[name]}
    return dataclasses.replace(case, label=label, fills=fills)


def _is_tensor(trial: Trial, base: Case, moved: Case) -> bool:
    names = moved_names(base, moved)
    return all(isinstance(trial.problem.input(name), TensorSpec) for name in names)


def _element_chain(trial: Trial, axes: Mapping[str, int]) -> list[Case]:
    chain: list[Case] = []
    for base, moved in pairs_of(trial):
        case = _one_element(trial, placed(base, axes), placed(moved, axes))
        if case is not None:
            chain += [placed(base, axes), case]
    return chain


def _one_element(trial: Trial, base: Case, moved: Case) -> Case | None:
    """Return `base` with one element of one tensor taken from `moved`, if that moves truth."""
    import torch

    names = moved_names(base, moved)
    spec = trial.problem.input(names[0]) if len(names) == 1 else None
    if not isinstance(spec, TensorSpec) or not _explicit_is_legal(spec):
        return None
    old, new = trial.inputs(base)[spec.name], trial.inputs(moved)[spec.name]
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return None
    if not 2 <= old.numel() <= _ELEMENT_LIMIT:
        return None
    differing = (old != new).reshape(-1).nonzero().reshape(-1)
    for attempt in range(_POSITIONS if differing.numel() else 0):
        seed = trial.seed("STATE001", "element", spec.name, attempt)
        position = int(differing[seed % differing.numel()])
        case = _with_element(base, spec.name, old, new, position=position)
        if _moves_truth(trial, base, case):
            return case
    return None


def _moves_truth(trial: Trial, base: Case, case: Case) -> bool:
    try:
        return truth_moved(trial, base, case)
    except CannotJudgeError:  # the reference cannot run this case: there is nothing to compare
        return False


def _with_element(
    base: Case, name: str, old: torch.Tensor, new: torch.Tensor, *, position: int
) -> Case:
    values = old.reshape(-1).tolist()
    values[position] = new.reshape(-1)[position].item()
    fill = Fill(kind="explicit", parameters={"values": tuple(values)})
    label = f"element {position} of {name} moved"
    return dataclasses.replace(base, label=label, fills={**base.fills, name: fill})


def _explicit_is_legal(spec: TensorSpec) -> bool:
    """Whether one element may change alone: not where elements constrain each other."""
    match spec.domain:
        case Real() | Positive() | IntegerRange():
            return spec.dtype.itemsize > 1
        case Index(unique=unique):
            return not unique
        case _:
            return False
