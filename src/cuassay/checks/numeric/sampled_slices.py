"""A call on a large case, judged on some slices of it: truth is made for those slices alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

from cuassay.checks.base import Run, Trial
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.numeric.relation_guess import RelationTrials, guesses
from cuassay.checks.numeric.relation_members import plain_axis, take_slices
from cuassay.checks.state.answers import Read
from cuassay.inputs.geometry import try_sizes
from cuassay.model.case import Case
from cuassay.model.problem import Problem
from cuassay.model.relation import RowsIndependent
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.steps import ReadSlices
from cuassay.model.trace import done_steps


def independent_axes(trial: Trial) -> Iterator[RowsIndependent]:
    """Yield the axes along which every output's slices depend on their own inputs alone.

    Declared ones first, then guesses that the float64 reference confirms on small cases. All
    outputs must have the axis at one place, where slices of all of them are read. Along an axis of
    one size no call has fewer slices: a sum over it is right in any order of its terms.
    """
    problem = trial.problem
    declared = [one for one in problem.relations if isinstance(one, RowsIndependent)]
    known, varying = {one.axis for one in declared}, {axis.name for axis in problem.var_axes()}
    verifier = RelationTrials(trial)
    for guess in (*declared, *guesses(problem)[0]):
        if not isinstance(guess, RowsIndependent):
            continue
        if guess.axis in known and not any(guess is one for one in declared):
            continue  # a guess of what is declared: it was tried
        places = {
            s.shape.index(guess.axis) if guess.axis in s.shape else -1 for s in problem.outputs
        }
        plain = guess.axis in varying and plain_axis(problem, guess.axis)
        if len(places) != 1 or -1 in places or not plain:
            continue
        found = guess if guess in declared else verifier.confirmed(guess)
        if isinstance(found, RowsIndependent) and covers_all(problem, found):
            yield found


def covers_all(problem: Problem, relation: RowsIndependent) -> bool:
    """Whether a relation holds for every output."""
    return not relation.outputs or {spec.name for spec in problem.outputs} <= set(relation.outputs)


def secret_places(length: int, *, most: int, seed: int) -> tuple[int, ...]:
    """Return the slices that are judged, sorted: both ends and secret ones."""
    draw = random.Random(seed)
    found = {0, 1, length - 2, length - 1}
    found |= {draw.randrange(length) for _ in range(most)}
    return tuple(sorted(place for place in found if 0 <= place < length))


def sampled_call(
    problem: Problem, whole: Case, axis: str, places: tuple[int, ...], *, label: str
) -> Scenario | None:
    """Return one call on `whole` of which slices `places` along `axis` are read.

    Its cases are the slices alone and the whole. None where the problem has no such sizes.
    """
    sizes = try_sizes(problem, whole.axes, {axis: len(places)})
    if sizes is None:
        return None
    few = take_slices(problem, whole, axis, rows=places, sizes=sizes, label="sampled slices")
    spec = next(spec for spec in problem.outputs if axis in spec.shape)
    steps = (
        Allocate(slot="a", case=1),
        Call(slot="a", result="r"),
        ReadSlices(result="r", axis=spec.shape.index(axis), places=places),
    )
    return Scenario(label=label, cases=(few, whole), steps=steps)


def slices_read(scenario: Scenario, run: Run) -> Iterator[Read]:
    """Yield what came back of the slices, each a read of a call on them alone."""
    for step, record in done_steps(scenario, run.result, ReadSlices):
        yield Read(result=step.result, case=scenario.cases[0], call=1, items=record.items)


def slice_elements(problem: Problem, whole: Case, axis: str, *, count: int = 1) -> int:
    """Return the elements of inputs and outputs of a call on `count` slices along an axis."""
    sizes = try_sizes(problem, whole.axes, {axis: count})
    return elements_of(problem, sizes) if sizes is not None else 0
