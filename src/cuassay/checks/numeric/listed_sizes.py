"""Which sizes a kernel was written for: those of the workloads, and those that are declared."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cuassay.checks.base import Trial
from cuassay.errors import ProblemError
from cuassay.model.axes import resolve, shape_of, smallest_workload_axes
from cuassay.model.case import Case
from cuassay.model.problem import Problem, TensorSpec

HOME_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 26}
_LISTED = 8  # sizes named in a message


def odd_axes(problem: Problem, case: Case) -> tuple[str, ...]:
    """Return the var axes whose size in `case` is used by no workload."""
    return tuple(
        axis.name
        for axis in problem.var_axes()
        if case.axes.get(axis.name) not in _used(problem, axis.name)
    )


def sizes_in_words(problem: Problem, case: Case) -> str:
    """Return `rows = 129, hidden = 64`: odd axes if there are any, else all var axes."""
    names = odd_axes(problem, case) or tuple(axis.name for axis in problem.var_axes())
    return ", ".join(f"{name} = {case.axes[name]}" for name in names) or "its only shape"


def refusal_condition(problem: Problem, case: Case) -> str:
    """Return the condition of use that a refused shape leads to; empty where it is a fault.

    Axes with declared bounds must work at every size within them. An axis without declared
    bounds has only its workloads as a promise: refusing another size, or another combination
    of their sizes, limits the use of the kernel and is no fault.
    """
    undeclared = {axis.name for axis in problem.var_axes() if not axis.declared}
    odd = [name for name in odd_axes(problem, case) if name in undeclared]
    if odd:
        parts = []
        for name in odd:
            sizes = sorted(_used(problem, name))
            more = ", ..." if len(sizes) > _LISTED else ""
            parts.append(f"{name} in {{{', '.join(map(str, sizes[:_LISTED]))}{more}}}")
        listing = "; ".join(parts)
        return f"shapes: only the sizes of its workloads ({listing})"
    if undeclared and not odd_axes(problem, case) and not _is_workload(problem, case):
        return "shapes: only the combinations of sizes of its workloads"
    return ""


def home_axes(trial: Trial) -> dict[str, int] | None:
    """Return the smallest workload's sizes where small shapes may be refused, else None.

    None as well where that workload is too large for a check that needs no size.
    """
    problem = trial.problem
    if all(axis.declared for axis in problem.var_axes()) or not problem.workloads:
        return None
    sizes = smallest_workload_axes(problem)
    budget = HOME_ELEMENTS[trial.device.kind]
    if elements_of(problem, sizes) > budget:
        return None
    asked = Case(label="a workload's sizes", axes=sizes, workload=problem.workloads[0].id)
    return sizes if trial.has_room(asked) else None


def settings(trial: Trial) -> list[dict[str, int]]:
    """Return the sizes at which host-side checks run: small ones, and a listed shape.

    Small sizes have every axis at least 2, so that faults of row 0 and of batches show. A
    kernel for listed sizes only would refuse them, so where bounds are not declared the
    smallest workload is tried as well.
    """
    found = [dict(case.axes) for case in trial.cases("small")[:1]]
    home = home_axes(trial)
    if home is not None and home not in found:
        found.append(home)
    return found


def elements_of(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Return how many elements inputs and outputs have together."""
    specs = (*(s for s in problem.inputs if isinstance(s, TensorSpec)), *problem.outputs)
    return sum(prod(shape_of(spec.shape, sizes)) for spec in specs)


def _used(problem: Problem, axis: str) -> set[int]:
    return {workload.axes[axis] for workload in problem.workloads if axis in workload.axes}


def _is_workload(problem: Problem, case: Case) -> bool:
    names = [axis.name for axis in problem.var_axes()]
    for workload in problem.workloads:
        try:
            sizes = resolve(problem.axes, workload.axes)
        except ProblemError:
            continue
        if all(sizes[name] == case.axes.get(name) for name in names):
            return True
    return False
