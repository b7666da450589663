"""Histories as long as serving is: hundreds of calls in a row, every result held to the end.

What a call costs here is the call: one step makes them all, and a secret sample of their results
is read when all are over. The tensors of a turn hold the same numbers in another order, or with
other signs, so that a fingerprint by sum, norm, extremes or first elements cannot tell them apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from math import prod
from random import Random

from cuassay.checks.base import Trial
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.checks.numeric.varied_scalars import varied_scalars
from cuassay.checks.state.answers import placed, reseeded
from cuassay.checks.state.histories import explicit_is_legal
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.model.axes import shape_of
from cuassay.model.case import Case, Fill
from cuassay.model.problem import TensorSpec
from cuassay.model.reports import Served
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario, Step
from cuassay.model.steps import CallVaried, Serve, Together
from cuassay.model.trace import ScenarioResult, done_steps

_TURNS = 64  # calls of a way to call, or as many as fit into its time
_LONG = 8 * _TURNS
_SAMPLED = 7  # results of these that are read, beside the first
_GRID = 6  # bits of a number: bfloat16 holds them, and float32 the sum of 2^17
_LARGE_ELEMENTS = 1 << 18
_LARGE_CALLS = 240
_HELD_BYTES = 1 << 26
_SHAPES_S = 8.0  # of calls on shapes in turn, after which no turn begins
_SLOW_S, _SLOWER = 0.02, 20.0  # a call where shapes come in turn, and times one that comes again
_TOGETHER_S = 1.0  # of calls from two threads


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
    changes = _changes(trial, base)
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
        yield from _shapes_in_turn(trial, small[0])
    if not trial.device.on_gpu and not executed:  # on a GPU a check of streams does it
        alone_s = trial.scenario_s(single_call(small[0], label="alone"))
        wished = trial.effort.together_calls
        rounds = wished if alone_s * wished < _TOGETHER_S else max(2, int(_TOGETHER_S / alone_s))
        seed = trial.seed("STATE001", "together")
        yield Scenario(
            label="calls from two threads at once",
            cases=(small[0], reseeded(small[0], label="other values", seed=seed)),
            steps=(
                *(
                    step
                    for number in range(2)
                    for step in (
                        Allocate(slot=f"s{number}", case=number),
                        Call(slot=f"s{number}", result=f"alone{number}"),
                        ReadResult(result=f"alone{number}"),
                    )
                ),
                Together(slots=("s0", "s1"), results=("r0", "r1"), threads=True, rounds=rounds),
                ReadResult(result="r0"),
                ReadResult(result="r1"),
            ),
            fresh=True,
        )
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


def _shapes_in_turn(trial: Trial, base: Case) -> Iterator[Scenario]:
    """Yield calls on many shapes in turn, then on one of them again and again.

    What is made for a shape and thrown away for the next one is made at each call.
    """
    count, problem = trial.effort.shapes_in_turn, trial.problem
    shapes: list[dict[str, int]] = []
    for axis in problem.var_axes():
        for more in range(1, count + 1):
            sizes = try_sizes(problem, base.axes, {axis.name: base.axes[axis.name] + more})
            if sizes is not None and legal(problem, sizes) and sizes not in shapes:
                shapes.append(sizes)
    cases = [placed(base, sizes) for sizes in shapes[:count]]
    if len(cases) < count or not count or trial.settled(cases[0]) is None:
        return
    names = tuple(f"s{number}" for number in range(count))
    turns = Serve(slots=names, count=3 * count, result="turns", budget_s=_SHAPES_S)
    again = Serve(slots=names[:1], count=_TURNS, result="again", budget_s=trial.effort.serving_s)
    yield Scenario(
        label="many shapes in turn",
        cases=tuple(cases),
        steps=(
            *(Allocate(slot=name, case=number) for number, name in enumerate(names)),
            turns,
            again,
            ReadResult(result=turns.name(0)),
            ReadResult(result=again.name(0)),
        ),
        fresh=True,
    )


def slow_in_turn(scenario: Scenario, result: ScenarioResult) -> str:
    """Return how much longer calls take where many shapes come in turn than where one does.

    Empty where they take about as long.
    """
    served = [
        (step, record.report)
        for step, record in done_steps(scenario, result, Serve)
        if isinstance(record.report, Served)
    ]
    if len(served) != 2 or served[0][0].turn == 1 or not all(one.least_s for _, one in served):
        return ""
    (turns, each), (_, again) = served
    usual_s = sorted(each.least_s)[len(each.least_s) // 2]
    if usual_s < _SLOW_S or usual_s < _SLOWER * again.least_s[0]:
        return ""
    shapes = len(turns.slots)
    return (
        f"a call takes {1e3 * usual_s:.0f} ms where {shapes} shapes come in turn, and "
        f"{1e3 * again.least_s[0]:.2g} ms where one of them comes again"
    )


def with_change(trial: Trial, base: Case, change: tuple[str, int, float]) -> Case:
    """Return a case with one element changed, as a CallVaried changes it."""
    name, place, value = change
    spec = next(one for one in trial.problem.inputs if one.name == name)
    assert isinstance(spec, TensorSpec)
    fill = with_parameters(own_fill(base, spec), {"spoil": (place,), "spoil_with": value})
    label = f"element {place} of {name} changed"
    return dataclasses.replace(base, label=label, fills={**base.fills, name: fill})


def _changes(trial: Trial, base: Case) -> tuple[tuple[str, int, float], ...]:
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
    for spec in _free(trial, base):
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


def _free(trial: Trial, base: Case) -> list[TensorSpec]:
    """Return the inputs whose elements may change alone, the larger ones first."""
    found = [
        spec
        for spec in trial.problem.inputs
        if isinstance(spec, TensorSpec)
        and explicit_is_legal(spec)
        and spec.name not in trial.problem.updated
        and (spec.name in base.fills or not base.generator)
    ]
    return sorted(found, key=lambda spec: -prod(shape_of(spec.shape, base.axes)))


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
    specs = {
        spec.name: spec
        for spec in trial.problem.inputs
        if isinstance(spec, TensorSpec)
        and explicit_is_legal(spec)
        and (spec.name in base.fills or not base.generator)
    }
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
    names = sorted(specs, key=lambda name: -prod(shape_of(specs[name].shape, base.axes)))
    names = names[: trial.effort.reordered_tensors]
    return (
        changed(base.label),
        *(changed(f"{name} in another order", (name,), reorder=seed) for name in names),
        changed(f"half of {names[0]} with the other sign", names[:1], negate=seed),
    )
