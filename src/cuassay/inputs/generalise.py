"""Which parts of a failing case do not matter: vary one at a time and say so in words.

`any seed; any rows >= 4; only when hidden mod 128 > 64`. Each part of the text rests on runs
of the failure; a part that the budget did not reach is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from cuassay.inputs.fills import family, kinds_for
from cuassay.inputs.geometry import elements, least, legal, tensor_inputs, try_sizes
from cuassay.inputs.scalars import default_scalar, moved_scalar
from cuassay.inputs.seeds import derive
from cuassay.inputs.size_law import OutOfBudget, SizeProbe, size_law
from cuassay.model import serial
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem, ScalarSpec, TensorSpec, VarAxis

Fails = Callable[[Case], bool | None]
_SEEDS = 2
_SEEDLESS = frozenset({"zeros", "ones", "constant", "explicit", "arange", "even"})
_OTHER_FILLS = {
    "real": (
        Fill(kind="normal"),
        Fill(kind="zeros"),
        Fill(kind="ones"),
        Fill(kind="normal", parameters={"scale": 30.0}),
        Fill(kind="same_sign"),
    ),
    "index": (Fill(kind="uniform"), Fill(kind="zipf"), Fill(kind="arange")),
    "lengths": (Fill(kind="uniform"), Fill(kind="full"), Fill(kind="zeros")),
    "offsets": (Fill(kind="uniform"), Fill(kind="even")),
    "mask": (Fill(kind="uniform"), Fill(kind="ones")),
    "integers": (Fill(kind="uniform"), Fill(kind="zeros")),
    "packed": (Fill(kind="uniform"), Fill(kind="zeros")),
    "choice": (Fill(kind="uniform"),),
}


@dataclass(slots=True, kw_only=True)
class _Search:
    case: Case
    fails: Fails
    problem: Problem
    max_runs: int
    max_elements: int
    drawn: Mapping[str, Fill]
    runs: int = 0
    known: dict[str, bool | None] = field(default_factory=dict)

    def ask(self, changed: Case) -> bool | None:
        """Return whether the failure shows on `changed`. Raises OutOfBudget."""
        key = serial.dumps(changed)
        if key not in self.known:
            if self.runs >= self.max_runs:
                raise OutOfBudget
            self.runs += 1
            self.known[key] = self.fails(changed)
        return self.known[key]


def generalise(
    case: Case,
    fails: Fails,
    problem: Problem,
    *,
    max_runs: int,
    max_elements: int = 1 << 16,
    fills: int = 3,
    drawn: Mapping[str, Fill] | None = None,
) -> str:
    """Return in words for which other inputs the failure of `case` shows; empty if unknown.

    `fails` runs one changed case: True where it fails, False where it passes, None where it
    cannot tell, OutOfBudget raised where time is over. `fills` other fills of each input are
    tried, and no case larger than `max_elements` elements of inputs and outputs. Listed values
    belong to one size: laws of sizes are found on the recipes that were `drawn` before.
    """
    search = _Search(
        case=case,
        fails=fails,
        problem=problem,
        max_runs=max_runs,
        max_elements=max_elements,
        drawn=drawn or {},
    )
    # What tries each aspect, the most telling first: seed, grown axes, fills, the rest
    axes = [] if case.benchmark else list(problem.var_axes())
    tensors = [] if case.benchmark else tensor_inputs(problem)
    axes.sort(key=lambda axis: case.axes[axis.name] <= least(axis))
    aspects: list[Callable[[], str]] = [
        partial(_seed, search),
        *(partial(_axis, search, axis) for axis in axes),
        *(
            partial(_fill, search, spec, fills)
            for spec in tensors
            if not isinstance(spec.domain, Opaque)
        ),
        *(
            partial(_scalar, search, scalar)
            for scalar in problem.inputs
            if isinstance(scalar, ScalarSpec)
        ),
    ]
    said: list[str] = []
    for aspect in aspects:
        with suppress(OutOfBudget):
            if told := aspect():
                said.append(told)
    if not said:
        return ""
    plural = "run" if search.runs == 1 else "runs"
    return f"{'; '.join(said)} ({search.runs} {plural})"


def _seed(search: _Search) -> str:
    kinds = {fill.kind for fill in search.case.fills.values()}
    named = len(search.case.fills) == len(tensor_inputs(search.problem))
    if named and kinds <= _SEEDLESS and not search.case.generator:
        return "any seed"
    answers = []
    for number in range(_SEEDS):
        seed = derive(search.case.seed, "generalise", number)
        answers.append(search.ask(dataclasses.replace(search.case, seed=seed)))
    told = [answer for answer in answers if answer is not None]
    if not told:
        return ""
    if all(told):
        return "any seed"
    return f"{1 + sum(told)} of {1 + len(told)} seeds"


def _axis(search: _Search, axis: VarAxis) -> str:
    step, start = axis.multiple_of, search.case.axes[axis.name]
    drawn = _drawn(search)
    if start % step or any(fill.kind == "explicit" for fill in drawn.fills.values()):
        return ""
    if drawn != search.case and search.ask(drawn) is not True:
        return ""  # drawn values do not fail there: a law would be about other tensors
    low = start
    high = low + (1 << 14) if axis.maximum is None else axis.maximum
    while low < high:
        middle = (low + high + 1) // 2
        sizes = try_sizes(search.problem, search.case.axes, {axis.name: middle})
        if sizes is not None and elements(search.problem, sizes) > search.max_elements:
            high = middle - 1
        else:
            low = middle
    probe = SizeProbe(
        name=axis.name,
        start=start // step,
        low=min(least(axis), start) // step,
        cap=low // step,  # the largest within the axis's bounds and the element budget
        step=step,
        fails=lambda size: _at_size(search, axis, size),
    )
    return size_law(probe)


def _at_size(search: _Search, axis: VarAxis, size: int) -> bool | None:
    sizes = try_sizes(search.problem, search.case.axes, {axis.name: size})
    if sizes is None or (search.case.in_domain and not legal(search.problem, sizes)):
        return None
    return search.ask(dataclasses.replace(_drawn(search), axes=sizes, workload=None))


def _drawn(search: _Search) -> Case:
    """Return the case with recipes in the place of listed values."""
    fills = {
        name: search.drawn.get(name, fill) if fill.kind == "explicit" else fill
        for name, fill in search.case.fills.items()
    }
    return dataclasses.replace(search.case, fills=fills)


def _fill(search: _Search, spec: TensorSpec, count: int) -> str:
    present = search.case.fills.get(spec.name)
    first = search.drawn.get(spec.name)  # what it was found on says more than usual values do
    usual = [fill for fill in _OTHER_FILLS[family(spec)] if fill != first]
    others = [
        fill
        for fill in (*([first] if first is not None else []), *usual)
        if fill != present and fill.kind in kinds_for(spec)
    ]
    failing: list[str] = []
    passing: list[str] = []
    for fill in others[:count]:
        fills = {**search.case.fills, spec.name: fill}
        answer = search.ask(dataclasses.replace(search.case, fills=fills))
        if answer is not None:
            (failing if answer else passing).append(_text(fill))
    own = _text(present) if present else "its present values"
    if not passing:
        return f"any {spec.name}" if failing else ""
    if not failing:
        return f"{spec.name} of {own}, not of {' or '.join(passing)}"
    return f"{spec.name} of {', '.join([own, *failing])}, not of {' or '.join(passing)}"


def _text(fill: Fill) -> str:
    if fill.kind == "explicit":
        return "these values"
    parameters = ", ".join(f"{name}={value}" for name, value in fill.parameters.items())
    return f"{fill.kind}({parameters})" if parameters else fill.kind


def _scalar(search: _Search, spec: ScalarSpec) -> str:
    present = search.case.scalars.get(spec.name, default_scalar(spec))
    other = moved_scalar(spec, present)
    if other is None:
        return ""
    scalars = {**search.case.scalars, spec.name: other}
    answer = search.ask(dataclasses.replace(search.case, scalars=scalars))
    if answer is None:
        return ""
    return f"any {spec.name}" if answer else f"{spec.name} = {present:g}, not {other:g}"
