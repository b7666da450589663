"""What the checks of host-side behaviour share: reads of a run, their bits, right or wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.base import Run, Trial, done
from cuassay.checks.follow import followed
from cuassay.model.case import GENERATED, Case, Fill
from cuassay.model.policy import policy_of
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.trace import ResultItem
from cuassay.oracle.bits import raw_bytes

if TYPE_CHECKING:
    from cuassay.oracle.truth.types import Truth

_VARIED = 0.5  # how far a parameter is varied, relative to itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One ReadResult that came back: the case that the call was made on, and its items.

    `call` counts the calls of the scenario from 1.
    """

    result: str
    case: Case
    call: int
    items: tuple[ResultItem, ...]


def reads_of(scenario: Scenario, run: Run) -> list[Read]:
    """Return the reads of results in order, as far as the run got."""
    found: list[Read] = []
    for index, step, held in followed(scenario):
        if not isinstance(step, ReadResult):
            continue
        record = done(run, index)
        if record is None:
            return found
        position, number = held.results[step.result]
        case = scenario.cases[position]
        found.append(Read(result=step.result, case=case, call=number, items=record.items))
    return found


def same_bits(run: Run, first: Sequence[ResultItem], second: Sequence[ResultItem]) -> bool:
    """Whether two reads hold the same structure and the same bytes."""
    if len(first) != len(second):
        return False
    return all(_same(run, a, b) for a, b in zip(first, second, strict=True))


def _same(run: Run, first: ResultItem, second: ResultItem) -> bool:
    if (first.kind, first.dtype, first.shape) != (second.kind, second.dtype, second.shape):
        return False
    if first.buffer < 0 or second.buffer < 0:
        return repr(first.scalar) == repr(second.scalar)  # so that NaN equals NaN
    import torch

    return bool(torch.equal(raw_bytes(run.tensor(first)), raw_bytes(run.tensor(second))))


def truth_moved(trial: Trial, first: Case, second: Case) -> bool:
    """Whether the right answers of two cases of equal shapes differ by more than their noise.

    The noise is that of the widest family which the policy accepts: what a kernel rounds there may
    be the same for two numbers that the reference tells apart.
    """
    if not _moved(trial.rough(first), trial.rough(second)):  # at far fewer runs
        return False
    policy = policy_of(trial.problem)
    return _moved(trial.truth(first, policy), trial.truth(second, policy))


def _moved(before: Truth, after: Truth) -> bool:
    for old, new in zip(before.outputs, after.outputs, strict=True):
        if tuple(old.value.shape) != tuple(new.value.shape):
            return True
        if not old.value.numel():
            continue
        if old.scale is None or new.scale is None:
            differs = old.value != new.value
            # Of equal values a kernel may choose the one that is left in both: no other answer.
            for one in (old, new):
                if one.ambiguous is not None:
                    differs &= ~one.ambiguous
            if bool(differs.any()):
                return True
            continue
        apart = (old.value - new.value).abs()
        noise = old.scale.abs().double() + new.scale.abs().double()
        if bool((apart > 16.0 * noise).any()):  # far beyond
            return True
    return False


def reseeded(case: Case, *, label: str, seed: int) -> Case:
    """Return the case with other values in every input."""
    return dataclasses.replace(case, label=label, seed=seed)


def placed(case: Case, axes: Mapping[str, int]) -> Case:
    """Return the case at other axis sizes."""
    return case if dict(case.axes) == dict(axes) else dataclasses.replace(case, axes=dict(axes))


def moved_names(base: Case, moved: Case) -> tuple[str, ...]:
    """Return the inputs whose fill or scalar differs between two cases."""
    names: Iterable[str] = dict.fromkeys((*base.fills, *moved.fills, *base.scalars, *moved.scalars))
    return tuple(
        name
        for name in names
        if base.fills.get(name) != moved.fills.get(name)
        or base.scalars.get(name) != moved.scalars.get(name)
    )


def varied_state(trial: Trial, case: Case, *, code: str) -> dict[str, Fill]:
    """Return fills that give every floating part of a module's state other values.

    Without those that are constants: a kernel that does not read such a part is judged elsewhere
    (API004). `code` is the check for which they are drawn.
    """
    given = trial.inputs(case)
    found: dict[str, Fill] = {}
    for name in trial.problem.state:
        value = given[name]
        if isinstance(value, bool | int | float) or not value.is_floating_point():
            continue
        if value.numel() > 1 and bool((value != value.reshape(-1)[0]).any()):
            seed = trial.seed(code, name) % 2**31
            found[name] = Fill(kind=GENERATED, parameters={"vary": _VARIED, "vary_seed": seed})
    return found
