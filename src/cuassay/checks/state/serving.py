"""Histories as long as serving is: hundreds of calls in a row, every result held to the end.

What a call costs here is the call: one step makes them all, and a secret sample of their results
is read when all are over. The tensors of a turn hold the same numbers in another order, or with
other signs, so that a fingerprint by sum, norm, extremes or first elements cannot tell them apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from random import Random

from cuassay.checks.base import Trial
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.numeric.varied_scalars import varied_scalars
from cuassay.checks.state.answers import placed, reseeded
from cuassay.checks.state.changed_elements import changed_elements, free_tensors
from cuassay.checks.state.shapes_in_turn import shapes_in_turn
from cuassay.checks.state.two_threads import calls_from_two_threads
from cuassay.model.case import Case, Fill
from cuassay.model.scenario import Allocate, ReadResult, Scenario, Step
from cuassay.model.steps import CallVaried, Serve

_TURNS = 64  # calls of a way to call, or as many as fit into its time
_LONG = 8 * _TURNS
_SAMPLED = 7  # results of these that are read, beside the first
_GRID = 6  # bits of a number: bfloat16 holds them, and float32 the sum of 2^17
_LARGE_ELEMENTS = 1 << 18
_LARGE_CALLS = 240
_HELD_BYTES = 1 << 26


def serving_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield long histories: at one small size, and at one where results soon take much memory."""
    small, sizes = trial.cases("small"), settings(trial)[-1:]
    if not small or not sizes:
        return
    # A kernel that forgets a scalar is right where it has its usual value.
    base, *others = _alike(trial, varied_scalars(trial, placed(small[0], sizes[0])))
    names = [chr(ord("a") + number) for number in range(1 + len(others))]
    budget_s = trial.effort.serving_s
    allocated = [Allocate(slot=name, case=number) for number, name in enumerate(names)]
    served = (
        Serve(slots=("a",), count=_TURNS, result="same", budget_s=budget_s),
        Serve(slots=tuple(names[:2]), count=_TURNS, result="turns", budget_s=budget_s),
        Serve(
            slots=("static",),
            values=tuple(names),
            count=_TURNS // len(names) * len(names),
            result="refilled",
            budget_s=budget_s,
        ),
        # More than any ring of buffers that is worth its memory: what comes round again is written.
        Serve(slots=tuple(names[-1:]), count=_LONG, result="last", budget_s=budget_s),
    )
    changes = changed_elements(trial, base)
    varied = CallVaried(slot="a", changes=changes, budget_s=trial.effort.varied_s)
    yield Scenario(
        label="many calls in a row",
        cases=(base, *others),
        steps=(
            *allocated,
            Allocate(slot="static", case=0),
            *served,
            *_sample(trial, served),
            *([varied] if changes else []),
        ),
        fresh=True,
    )
    executed = trial.machine is not None and not trial.machine.absent
    if not executed:
        yield from shapes_in_turn(trial, small[0])
    if not trial.device.on_gpu and not executed:  # on a GPU a check of streams does it
        yield calls_from_two_threads(trial, small[0])
    # `large` is two planned cases of one large shape; none where there is no such pair.
    shapes: dict[tuple[tuple[str, int], ...], list[Case]] = {}
    for case in trial.cases("numeric"):
        if case.in_domain and elements_of(trial.problem, case.axes) <= _LARGE_ELEMENTS:
            shapes.setdefault(tuple(sorted(case.axes.items())), []).append(case)
    pairs = [found for found in shapes.values() if len(found) > 1 and trial.has_room(found[0])]
    if not pairs:
        large: tuple[Case, ...] = ()
    else:
        most = max(pairs, key=lambda found: elements_of(trial.problem, found[0].axes))
        large = most[0], most[1]
    if large:
        # What is held of the one is overwritten by the other, wherever memory comes round again.
        steps = (
            Serve(slots=("a",), count=_SAMPLED + 1, result="first", budget_s=budget_s),
            Serve(
                slots=("b",),
                count=_LARGE_CALLS,
                result="later",
                budget_s=budget_s,
                most_bytes=_HELD_BYTES,
            ),
        )
        yield Scenario(
            label="many calls in a row at a large size",
            cases=large,
            steps=(
                Allocate(slot="a", case=0),
                Allocate(slot="b", case=1),
                *steps,
                *_sample(trial, steps),
            ),
            fresh=True,
        )


def _sample(trial: Trial, served: Sequence[Serve]) -> Iterator[Step]:
    """Yield the reads of some results: which ones is not known until all calls are over.

    One at least is of each tensor, and of each of the values, that the calls take in turn.
    """
    for step in served:
        random = Random(trial.seed("STATE001", "sample", step.result))
        turn = max(len(step.values), len(step.slots))
        rest = range(1, step.count)
        chosen = {random.choice(found) for place in range(turn) if (found := rest[place::turn])}
        chosen |= set(random.sample(rest, min(max(0, _SAMPLED - len(chosen)), len(rest))))
        for number in (0, *sorted(chosen)):
            yield ReadResult(result=step.name(number))


def _alike(trial: Trial, base: Case) -> tuple[Case, ...]:
    """Return a case, then cases that no sum, norm, extreme or end of any tensor tells from it.

    One tensor differs, the larger ones first. Where none can be reordered all have other values.
    """
    specs = {spec.name: spec for spec in free_tensors(trial, base)}
    if not specs:
        seed = trial.seed("STATE001", "served")
        return base, reseeded(base, label="other values", seed=seed)
    seed = trial.seed("STATE001", "order") % (1 << 31)

    from cuassay.inputs.fills import default_fill  # with torch

    def changed(label: str, names: Sequence[str] = (), **more: int) -> Case:
        fills: dict[str, Fill] = dict(base.fills)
        for name, spec in specs.items():
            fill = fills.get(name) or default_fill(spec)
            parameters = {**fill.parameters, "grid": _GRID, **(more if name in names else {})}
            fills[name] = Fill(kind=fill.kind, parameters=parameters)
        return dataclasses.replace(base, label=label, fills=fills)

    # One tensor at a time: a key that holds all of another one collides too.
    names = list(specs)[: trial.effort.reordered_tensors]
    return (
        changed(base.label),
        *(changed(f"{name} in another order", (name,), reorder=seed) for name in names),
        changed(f"half of {names[0]} with the other sign", names[:1], negate=seed),
    )
