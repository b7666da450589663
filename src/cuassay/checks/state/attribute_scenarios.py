"""The scenarios of STATE002: one attribute of a call toggled back and forth in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cuassay.checks.base import Trial
from cuassay.checks.interface.inputs_used import pairs_of
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import moved_names, placed
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import Case
from cuassay.model.problem import Problem, ScalarSpec, TensorSpec
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario, Step
from cuassay.model.steps import Arrange, Layout, Overwrite
from cuassay.model.verdict import Profile

LAYOUTS = "toggled: the layout of one input at a time"
SHAPES = "toggled: the size of one axis at a time"
SCALARS = "toggled: one scalar at a time"
WRITTEN = "toggled: the caller writes into what it got"
_FEW_INPUTS = 3  # whose layouts `quick` toggles
_DEEP = (Layout.STEPPED, Layout.OFFSET, Layout.PACKED)


@dataclass(slots=True)
class Line:
    """Steps in the making: each variant of a call has a slot of its own and keeps it."""

    cases: list[Case] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    _slots: dict[str, str] = field(default_factory=dict)
    _calls: int = 0

    def call(self, case: Case, layouts: Mapping[str, Layout] | None = None) -> str:
        """Call on a case in a layout and read the result; return the result's name."""
        slot = self._slot(case, layouts or {})
        result = f"r{self._calls}"
        self._calls += 1
        self.steps += [Call(slot=slot, result=result), ReadResult(result=result)]
        return result

    def _slot(self, case: Case, layouts: Mapping[str, Layout]) -> str:
        key = repr((case, sorted(layouts.items())))
        if key not in self._slots:
            self._slots[key] = slot = f"s{len(self._slots)}"
            if case not in self.cases:
                self.cases.append(case)
            self.steps.append(Allocate(slot=slot, case=self.cases.index(case)))
            if layouts:
                self.steps.append(Arrange(slot=slot, layouts=dict(layouts)))
        return self._slots[key]

    def scenario(self, label: str) -> Scenario:
        """Return the scenario, in a process of its own."""
        cases, steps = tuple(self.cases), tuple(self.steps)
        return Scenario(label=label, cases=cases, steps=steps, fresh=True)


def toggle_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield a process for each kind of attribute at `quick`, else one for each attribute."""
    axes = settings(trial)[-1:]
    if not axes:
        return
    plain = placed(trial.cases("small")[0], axes[0])
    layouts = list(_layouts(trial, plain))
    shapes = _shapes(trial, plain)
    scalars = _scalars(trial, plain)
    if trial.profile is Profile.QUICK:
        yield from _few(plain, layouts[:_FEW_INPUTS], shapes, scalars)
        return
    for arranged in layouts:
        line = Line()
        _toggle_layout(line, plain, arranged)
        yield line.scenario(LAYOUTS)
    for shape in shapes:
        line = Line()
        _toggle(line, [shape, plain])
        yield line.scenario(SHAPES)
    for pair in scalars:
        line = Line()
        _toggle(line, pair)
        yield line.scenario(SCALARS)
    line = Line()
    _write(line, plain)
    yield line.scenario(WRITTEN)


def _few(
    plain: Case,
    layouts: Sequence[Mapping[str, Layout]],
    shapes: Sequence[Case],
    scalars: Sequence[tuple[Case, Case]],
) -> Iterator[Scenario]:
    """Yield one process for each kind of attribute: each kind has to come first in one."""
    line = Line()
    _toggle(line, [case for pair in zip(*scalars, strict=True) for case in pair])
    _write(line, plain)
    yield line.scenario(SCALARS if scalars else WRITTEN)
    if layouts:
        line = Line()
        for arranged in layouts:
            _toggle_layout(line, plain, arranged)
        yield line.scenario(LAYOUTS)
    if shapes:
        line = Line()
        _toggle(line, [*shapes, plain])
        yield line.scenario(SHAPES)


def _toggle(line: Line, cases: Sequence[Case]) -> None:
    """Call on all in turn, twice: the plain ones last, so that the odd ones come fresh."""
    distinct = [case for number, case in enumerate(cases) if case not in cases[:number]]
    for case in (*distinct, *distinct):
        line.call(case)


def _toggle_layout(line: Line, case: Case, layouts: Mapping[str, Layout]) -> None:
    """Begin with the unusual layout: an answer wrong in it at once is no matter of state."""
    for arranged in (layouts, None, layouts, None):
        line.call(case, arranged)


def _write(line: Line, case: Case) -> None:
    """Let the caller write into what two calls in a row gave it, then call a third time."""
    for _ in range(2):
        line.steps.append(Overwrite(result=line.call(case)))
    line.call(case)


def odd_layouts(problem: Problem, case: Case) -> dict[str, Layout]:
    """Return a layout that is not row-major for every input that can have one.

    Not of integers: a kernel that ignores strides would take what lies between the elements
    for indices, and write anywhere.
    """
    found = {}
    for spec in problem.inputs:
        if not isinstance(spec, TensorSpec) or not spec.dtype.is_floating:
            continue
        shape = shape_of(spec.shape, case.axes)
        if len(shape) > 1 and min(shape[-2:]) > 1:
            found[spec.name] = Layout.TRANSPOSED
        elif shape and shape[-1] > 1:
            found[spec.name] = Layout.STEPPED
    return found


def _layouts(trial: Trial, case: Case) -> Iterator[dict[str, Layout]]:
    """Yield one input's layout at a time; more layouts each at `deep`."""
    odd = odd_layouts(trial.problem, case)
    yield from ({name: layout} for name, layout in odd.items())
    if trial.profile is Profile.DEEP:
        for layout in _DEEP:
            yield from ({name: layout} for name, first in odd.items() if first is not layout)


def _shapes(trial: Trial, plain: Case) -> list[Case]:
    """Return cases that are smaller in one axis each; else the next workload's size."""
    cases = trial.cases("small")
    if dict(cases[0].axes) == dict(plain.axes):
        return [case for case in cases if len(_other_sizes(case, plain)) == 1]
    problem = trial.problem
    sizes = [resolve(problem.axes, workload.axes) for workload in problem.workloads]
    others = sorted((s for s in sizes if s != dict(plain.axes)), key=lambda s: sum(s.values()))
    return [placed(cases[0], others[0])] if others else []


def _other_sizes(case: Case, plain: Case) -> list[str]:
    return [name for name, size in plain.axes.items() if case.axes.get(name) != size]


def _scalars(trial: Trial, plain: Case) -> list[tuple[Case, Case]]:
    """Return (moved, base) of each scalar.

    Moved ones are called first: a kernel that ignores the scalar is then wrong before any
    call could have left it the answer that it gives.
    """
    found = []
    for base, moved in pairs_of(trial):
        names = moved_names(base, moved)
        if names and all(isinstance(trial.problem.input(n), ScalarSpec) for n in names):
            found.append((placed(moved, plain.axes), placed(base, plain.axes)))
    return found


def sizes_in_words(before: Case, now: Case) -> str:
    """Return `rows went from 13 to 6`."""
    names: Sequence[str] = _other_sizes(now, before)
    return " and ".join(f"{n} went from {before.axes[n]} to {now.axes[n]}" for n in names)
