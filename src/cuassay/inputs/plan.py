"""Which cases to run for a purpose, within the budget of a profile.

Purposes: `numeric` (regimes on workload shapes), `hot` (many terms on one sum), `growth`
(the same at growing lengths), `shapes` (neighbours of the listed shapes), `beyond` (a threshold of
the candidate's sources), `small` (cheap, every axis at least 2), `arguments` (each input and scalar
moved alone), `ends` (ends of domains), `benchmark` (the workloads' own inputs), `known` (failures
kept from earlier trials), `facts` (facts of the problem's own inputs broken) and `slices` (some
slices of one of them changed); the judge fills the last three.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from cuassay.errors import UnknownNameError
from cuassay.inputs.arguments import arguments
from cuassay.inputs.budget import budget_for, for_modules
from cuassay.inputs.ends import ends
from cuassay.inputs.equalities import at_scalars
from cuassay.inputs.geometry import elements, fitted_sizes, growth_axes, legal
from cuassay.inputs.named_sizes import NamedSize
from cuassay.inputs.named_values import beyond_values
from cuassay.inputs.neighbours import beyond, shapes
from cuassay.inputs.planner import GatesOf, Planner, has_custom_source
from cuassay.inputs.reductions import growth, hot
from cuassay.inputs.regimes import NUMERIC
from cuassay.inputs.scalars import moved_scalar
from cuassay.inputs.seeds import derive
from cuassay.inputs.small import small, small_sizes
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.domain import Choice
from cuassay.model.dtype import DType
from cuassay.model.problem import STATE_SOURCE, Problem, ScalarSpec
from cuassay.model.verdict import Profile

__all__ = ["PURPOSES", "growth_axes", "plan_cases", "small_sizes"]


def plan_cases(
    problem: Problem,
    purpose: str,
    *,
    profile: Profile,
    root_seed: int,
    device: Device = CPU,
    first: Sequence[str] = (),
    reduced: Sequence[str] = (),
    named: Sequence[NamedSize] = (),
    values: Sequence[float] = (),
    memory_gib: float | None = None,
    is_affordable: Callable[[Mapping[str, int]], bool] = lambda _: True,
    gates: GatesOf = lambda _: (),
) -> tuple[Case, ...]:
    """Return the cases of a purpose, most telling first; deterministic in all arguments.

    `first` names regimes that this problem needs most: `numeric` runs them before those that
    the profile always runs. The cases of a regime are the same with and without it. `reduced`
    names axes that the reference was seen to reduce: `hot` and `growth` lengthen them after
    those that the problem tells of, up to the largest listed size where no maximum is declared.
    `named` are sizes that the candidate's sources speak of: `shapes` has cases beside them,
    `beyond` one above them; `values` are those that they compare elements with: `numeric` has
    cases beyond them. `memory_gib` bounds the elements of a case on a GPU. `is_affordable` says
    whether a call at some sizes may be judged: cases that constant axes make large are planned
    smaller. `gates` says how far the reference's gates are closed in a case: `ends` has one in
    which they nearly are.
    Raises UnknownNameError for an unknown purpose and ProblemError for a problem without
    workloads or with axes that contradict each other.
    """
    if purpose not in PURPOSES:
        raise UnknownNameError("purpose", purpose, PURPOSES)
    budget = budget_for(profile, device=device, memory_gib=memory_gib)
    planner = Planner(
        problem=problem,
        budget=for_modules(budget) if problem.built else budget,
        root_seed=derive(root_seed, "plan", purpose),
        first=tuple(first),
        reduced=tuple(reduced),
        named=tuple(named),
        values=tuple(values),
        is_affordable=is_affordable,
        gates=gates,
    )
    return PURPOSES[purpose](planner)


def numeric(planner: Planner) -> tuple[Case, ...]:
    """Regimes in order of worth, over the workload shapes that fit, largest first.

    The planner's own regimes come first, then those of the budget.
    """
    budget = planner.budget
    picked = planner.fitting(budget.numeric_elements, budget.numeric_workloads)
    own: tuple[Case, ...] = ()
    if planner.problem.reference.generator is not None:
        plain = planner.case("the problem's own generator", picked[0][1], NUMERIC[0])
        own = (
            Case(
                label=plain.label,
                axes=plain.axes,
                scalars=plain.scalars,
                seed=plain.seed,
                generator=True,
            ),
        )
    cases = []
    # Places in the endless round of regimes: the wanted ones, then the budget's.
    wanted = [i for name in planner.first for i, r in enumerate(NUMERIC) if r.name == name]
    positions = tuple(dict.fromkeys((*wanted, *range(planner.budget.numeric_cases))))
    for position in positions:
        regime = NUMERIC[position % len(NUMERIC)]
        # Offset by the round, so that a second round meets other shapes.
        turn = position + position // len(NUMERIC)
        workload, sizes = picked[turn % len(picked)]
        label = f"{regime.name} on {_listed(planner.problem, sizes)}"
        path = ("numeric", position)
        cases.append(planner.case(label, sizes, regime, workload=workload, seed_path=path))
    cases = _with_both_values(planner.problem, cases)
    # A case of a module built as the problem builds it, everything else small. Where other sizes
    # are judged, this is the one that the benchmark runs.
    problem = planner.problem
    as_built: tuple[Case, ...] = ()
    if problem.built:
        _, sizes = planner.workloads()[0]
        sizes = fitted_sizes(
            problem, sizes, budget=planner.budget.small_elements, keep=problem.built
        )
        as_built = (planner.case(f"as built on {_listed(problem, sizes)}", sizes, NUMERIC[0]),)
    calls = [pair for pair in planner.workloads() if pair[0].recorded]
    limit = planner.budget.benchmark_elements
    fits = [pair for pair in calls if elements(planner.problem, pair[1]) <= limit] or calls[:1]
    recorded = (
        Case(
            label=f"{workload.id} on {_listed(planner.problem, sizes)}",
            axes=sizes,
            scalars=planner.problem.usual_state,
            seed=derive(planner.root_seed, workload.id),
            benchmark=True,
            workload=workload.id,
        )
        for workload, sizes in fits[: planner.budget.recorded_cases]
    )
    return (*recorded, *own, *cases, *at_scalars(planner), *beyond_values(planner), *as_built)


def _with_both_values(problem: Problem, cases: Sequence[Case]) -> list[Case]:
    """Return the cases with at least two values of each flag among them.

    A flag drawn anew in three cases has the usual value in all of them one time in eight, and a
    kernel that ignores it is right there: the last case takes another value then.
    """
    found = list(cases)
    for spec in problem.inputs if len(found) > 1 else ():
        if not isinstance(spec, ScalarSpec) or spec.name == STATE_SOURCE:
            continue
        is_flag = spec.dtype is DType.BOOL or isinstance(spec.domain, Choice)
        values = {case.scalars[spec.name] for case in found if spec.name in case.scalars}
        if not is_flag or len(values) != 1:
            continue
        other = moved_scalar(spec, values.pop())
        if other is not None:
            scalars = {**found[-1].scalars, spec.name: other}
            found[-1] = dataclasses.replace(found[-1], scalars=scalars)
    return found


def benchmark(planner: Planner) -> tuple[Case, ...]:
    """Return the workloads' own cases, smallest first; `workload` names each.

    The smallest workload is always there, larger ones as far as the budget allows: a kernel may
    have a branch for each.
    """
    first, *others = planner.workloads()
    budget, problem = planner.budget, planner.problem
    fits = [pair for pair in others if elements(problem, pair[1]) <= budget.benchmark_elements]
    chosen = [first, *fits][: budget.benchmark_cases]
    more = [first, *fits][budget.benchmark_cases :]
    chosen += [pair for pair in more if elements(problem, pair[1]) <= budget.listed_elements]
    return tuple(
        Case(
            label=f"benchmark workload {workload.id}",
            axes=sizes,
            scalars=planner.problem.usual_state,
            seed=derive(planner.root_seed, workload.id),
            generator=has_custom_source(workload),
            benchmark=True,
            workload=workload.id,
            in_domain=legal(planner.problem, sizes),
        )
        for workload, sizes in chosen
    )


def _listed(problem: Problem, sizes: Mapping[str, int]) -> str:
    names = [axis.name for axis in problem.var_axes()] or list(sizes)
    return " ".join(f"{name}={sizes[name]}" for name in names)


PURPOSES: Mapping[str, Callable[[Planner], tuple[Case, ...]]] = {
    "numeric": numeric,
    "hot": hot,
    "growth": growth,
    "shapes": shapes,
    "beyond": beyond,
    "small": small,
    "arguments": arguments,
    "ends": ends,
    "benchmark": benchmark,
    "known": lambda _: (),
    "facts": lambda _: (),
    "slices": lambda _: (),
}
