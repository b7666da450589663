"""Cases to search for an input that tells a mutant apart, before it is called equivalent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from cuassay.inputs.budget import budget_for
from cuassay.inputs.fills import family
from cuassay.inputs.geometry import elements, fitted_sizes, legal, tensor_inputs
from cuassay.inputs.plan import plan_cases
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import HOT_INDEX, HOT_SUM, NUMERIC, Regime
from cuassay.inputs.scalars import moved_scalar
from cuassay.inputs.seeds import derive
from cuassay.inputs.small import small_sizes
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem, Scalar, ScalarSpec
from cuassay.model.verdict import Profile

_SHAPED = 2**13  # elements of the shape on which regimes are compared: tens of rows and columns
_SEARCHED = 2**15  # the most elements of a case of the search
SEARCH_SEED = 0x5EA2C4  # regimes are chosen by name: any seed will do, and a fixed one repeats


def planner_for(problem: Problem, *, device: Device) -> Planner:
    """Return the planner of the search: the deep budget, a fixed seed."""
    return Planner(
        problem=problem, budget=budget_for(Profile.DEEP, device=device), root_seed=SEARCH_SEED
    )


def regime_cases(planner: Planner) -> dict[str, Case]:
    """Return one case a numeric regime, all on one small shape, by the regime's name."""
    sizes = shape_for_regimes(planner)
    return {regime.name: _case(planner, sizes, regime) for regime in NUMERIC}


def shape_for_regimes(planner: Planner) -> dict[str, int]:
    """Return the smallest workload cut to some thousand elements."""
    return fitted_sizes(planner.problem, planner.workloads()[0][1], budget=_SHAPED, floor=16)


def search_cases(problem: Problem, *, device: Device) -> Iterator[Case]:
    """Yield the cases of the search, cheapest first; only legal ones.

    Every regime on two small shapes and a larger one, with usual and with far scalars; then
    what the deep plan would run on hot keys, odd shapes and single arguments, as far as small.
    """
    planner = planner_for(problem, device=device)
    indexed = any(family(spec) == "index" for spec in tensor_inputs(problem))
    regimes = (*NUMERIC, *(HOT_INDEX if indexed else HOT_SUM))
    small, larger = small_sizes(planner), shape_for_regimes(planner)
    for sizes in (small, larger):
        for regime in regimes:
            # The regime with usual, with drawn and with far scalars, where there are any
            usual = _case(planner, sizes, dataclasses.replace(regime, usual_scalars=True))
            if not legal(planner.problem, usual.axes):
                continue
            yield usual
            far = _far(planner.problem, usual.scalars)
            if not usual.scalars:
                continue
            yield dataclasses.replace(
                _case(planner, sizes, dataclasses.replace(regime, usual_scalars=False)),
                label=f"{usual.label}, other scalars",
            )
            for number, scalars in enumerate(far):
                moved = {
                    name: value for name, value in scalars.items() if value != usual.scalars[name]
                }
                listed = ", ".join(f"{name}={value:g}" for name, value in moved.items())
                yield dataclasses.replace(
                    usual,
                    label=f"{usual.label}, {listed}",
                    scalars=scalars,
                    seed=derive(usual.seed, "far", number),
                )
    for purpose in ("arguments", "small", "shapes", "hot", "numeric"):
        planned = plan_cases(
            problem, purpose, profile=Profile.DEEP, root_seed=SEARCH_SEED, device=CPU
        )
        for case in planned:
            if case.in_domain and elements(problem, case.axes) <= _SEARCHED:
                yield case


def _far(problem: Problem, usual: Mapping[str, Scalar]) -> Iterator[dict[str, Scalar]]:
    """Yield the scalars with each one alone far from its usual value, at either end."""
    for spec in problem.inputs:
        if isinstance(spec, ScalarSpec) and spec.name in usual:
            once = moved_scalar(spec, usual[spec.name])
            twice = None if once is None else moved_scalar(spec, once)
            for value in dict.fromkeys(
                v for v in (once, twice) if v not in (None, usual[spec.name])
            ):
                yield {**usual, spec.name: value}


def _case(planner: Planner, sizes: Mapping[str, int], regime: Regime) -> Case:
    shape = " ".join(f"{axis.name}={sizes[axis.name]}" for axis in planner.problem.var_axes())
    return planner.case(
        f"{regime.name} on {shape}" if shape else regime.name,
        sizes,
        regime,
        workload=planner.first_workload,
    )
