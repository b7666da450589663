"""Which layouts and shared memories are tried, as scenarios: the plain call is first and last."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from cuassay.checks.base import Trial
from cuassay.checks.numeric.listed_sizes import home_axes, settings
from cuassay.errors import CannotJudgeError, ProblemError
from cuassay.inputs.geometry import elements, legal, tensor_inputs, try_sizes
from cuassay.model.axes import shape_of
from cuassay.model.case import GENERATED, Case, Fill, FillValue
from cuassay.model.domain import Index, Positive, Real
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.scenario import Allocate, Call, ReadResult, Release, Scenario, Step, call_steps
from cuassay.model.steps import Arrange, CallInto, Layout
from cuassay.model.verdict import Profile

PLAIN, AGAIN = "plain", "again"
_QUICK_CALLS = 6
_QUICK_EXPANDED = 2
_QUICK_SHARED = 4
_QUICK_ALIKE, _ALIKE = 2, 6
_MATRIX = 2  # axes
_LARGE_OF = 4  # ordinary cases, of which the largest is laid out anew: its truth is known already
_GRADIENT = re.compile(r"grad|d(out|output|y|o|z|loss|q|k|v|h)?$|d_|.*_grad$|.*_bar$")
_EACH = (Layout.TRANSPOSED, Layout.STEPPED, Layout.OFFSET, Layout.PACKED, Layout.CHANNELS_LAST)
_CHANNELS_LAST_AXES = 4
Layouts = Mapping[str, Layout]


def base_cases(trial: Trial) -> list[Case]:
    """Return small cases, or listed sizes where small ones may be refused; one at `quick`."""
    small = [case for case in trial.cases("small") if case.in_domain][:1]
    if not small:
        return []
    places = [home_axes(trial) or dict(small[0].axes)]
    if trial.profile is not Profile.QUICK:
        places += [axes for axes in settings(trial) if axes not in places]
    cases = [dataclasses.replace(small[0], axes=axes) for axes in places]
    if trial.profile is Profile.DEEP:
        first = small[0].axes  # of the small cases, B differs from A in every axis
        others = [case for case in trial.cases("small") if case.in_domain]
        varied = [axis.name for axis in trial.problem.var_axes()]
        cases += [c for c in others if varied and all(c.axes[n] != first[n] for n in varied)]
    # The same small case as other checks use, where it is one: its truth is known already.
    return [small[0] if case == small[0] else case for case in cases]


def layout_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield one scenario for all inputs at `quick`, else one an input; equal slices apart."""
    quick = trial.profile is Profile.QUICK
    problem = trial.problem
    for case in base_cases(trial):
        specs = by_telling(problem)
        if quick:
            tried: list[Layouts] = [{spec.name: fitting(spec, case)[0]} for spec in specs]
            tried = tried[: _QUICK_CALLS - 2]
            tried += packable(problem, case)[:1]
            for spec in specs[:1]:  # an offset first: alignment shows in nothing else
                others = sorted(
                    fitting(spec, case)[1:], key=lambda layout: layout is not Layout.OFFSET
                )
                tried += [{spec.name: layout} for layout in others]
            yield _arranged(case, tried[:_QUICK_CALLS], label="inputs in other layouts")
        else:
            for spec in specs:
                tried = [{spec.name: layout} for layout in fitting(spec, case)]
                yield _arranged(case, tried, label=f"{spec.name} in other layouts")
            for group in packable(problem, case):
                yield _arranged(case, [group], label=f"{', '.join(group)} in one buffer")
        # What a call writes into cannot be expanded: torch's own operators refuse it.
        wanted = [
            spec
            for spec in specs
            if expandable_axes(spec, case) and spec.name not in problem.updated
        ]
        if quick:
            wanted = [s for s in wanted if is_gradient(s)][:_QUICK_EXPANDED] or wanted[:1]
        for spec in wanted:
            tried = [{spec.name: Layout.EXPANDED}]
            for axis in expandable_axes(spec, case):
                equal = equal_slices(case, spec, axis)
                yield _arranged(equal, tried, label=f"{spec.name} expanded along {axis}")


def large_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield one scenario in which all inputs of the largest ordinary case are laid out anew.

    A kernel may copy where an input is small, and take strides for granted where it is large. None
    where the PTX machine executes the kernel: three large calls take it longer than the others.
    """
    if trial.machine is not None and not trial.machine.absent:
        return
    cases = [case for case in trial.cases("numeric")[:_LARGE_OF] if case.in_domain]
    largest = max(cases, key=lambda case: elements(trial.problem, case.axes), default=None)
    layouts = {s.name: fitting(s, largest)[0] for s in by_telling(trial.problem) if largest}
    if largest is not None and all(largest.axes != case.axes for case in base_cases(trial)):
        yield _arranged(largest, [layouts], label="all inputs in other layouts, large")


def shared_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield one scenario in which outputs lie in the memory of inputs, one pair at a time."""
    for case in base_cases(trial)[:1]:
        pairs = [
            (out.name, given.name)
            for out in trial.problem.outputs
            for given in tensor_inputs(trial.problem)
            if given.dtype == out.dtype and _shape(given, case) == _shape(out, case) != ()
        ]
        if trial.profile is Profile.QUICK:
            pairs = pairs[:_QUICK_SHARED]
        if pairs:
            calls = [CallInto(slot="b", result="", into={out: given}) for out, given in pairs]
            yield _scenario(case, [[call] for call in calls], label="outputs in inputs' memory")


def one_tensor_scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield scenarios in which one tensor, or a transposed view of it, is passed as two inputs.

    At sizes at which both have its shape; of inputs that no call writes, where truth of such
    values decides anything. Two at most at `quick`, none of a kernel that the PTX machine executes
    there, whose three calls take long; else six.
    """
    problem = trial.problem
    executed = trial.machine is not None and not trial.machine.absent
    if executed and trial.profile is Profile.QUICK:
        return
    most = _QUICK_ALIKE if trial.profile is Profile.QUICK else _ALIKE
    made = 0
    specs = [
        spec
        for spec in tensor_inputs(problem)
        if isinstance(spec.domain, Real)
        and spec.dtype.is_floating
        and spec.shape
        and spec.name not in problem.updated
    ]
    pairs = [
        (one, other, turned)
        for number, other in enumerate(specs)
        for one in specs[:number]
        if (one.dtype, len(one.shape), one.domain) == (other.dtype, len(other.shape), other.domain)
        for turned in ((False, True) if len(one.shape) == _MATRIX else (False,))
    ]
    for case in base_cases(trial)[:1] if pairs else ():
        for one, other, turned in pairs:
            sizes = sizes_alike(problem, case.axes, (one, other), turned=turned)
            if sizes is None or made == most:
                continue
            alike = Fill(kind="normal", parameters={"like": one.name, "like_step": 0})
            own = dataclasses.replace(
                case,
                label=f"{case.label}, {other.name} equal to {one.name}{' transposed' * turned}",
                axes=sizes,
                fills={**case.fills, other.name: alike},
            )
            try:
                if not trial.decides(own):
                    continue
            except CannotJudgeError:  # the reference refuses these values
                continue
            made += 1
            call: list[Step] = [
                Arrange(slot="b", same={other.name: one.name}),
                Call(slot="b", result=""),
            ]
            yield _scenario(own, [call], label="one tensor for two inputs")


def sizes_alike(
    problem: Problem,
    sizes: Mapping[str, int],
    specs: tuple[TensorSpec, TensorSpec],
    *,
    turned: bool,
) -> dict[str, int] | None:
    """Return legal sizes at which two inputs have one shape, or `turned` each other's, not square.

    None where there are none nearby: an axis takes the size of the one that stands at its place.
    """
    first, second = specs[0].shape, specs[1].shape[::-1] if turned else specs[1].shape
    changed: dict[str, int] | None = dict(sizes)
    for _ in range(len(first)):
        for one, other in zip(first, second, strict=True):
            if changed is not None and one != other and {one, other} <= changed.keys():
                changed = try_sizes(problem, changed, {one: changed[other]})
    if changed is None or not legal(problem, changed):
        return None
    shapes = [shape_of(spec.shape, changed) for spec in specs]
    square = shapes[0] == shapes[0][::-1]
    fit = shapes[0] == (shapes[1][::-1] if turned else shapes[1])
    return changed if fit and not (turned and square) else None


def by_telling(problem: Problem) -> list[TensorSpec]:
    """Return the tensor inputs that have an axis: gradients first, then those of most axes."""
    specs = [spec for spec in tensor_inputs(problem) if spec.shape]
    return sorted(specs, key=lambda s: (len(s.shape) < 2, not is_gradient(s)))


def is_gradient(spec: TensorSpec) -> bool:
    """Whether an input is an upstream gradient, by its name."""
    return bool(_GRADIENT.match(spec.name))


def fitting(spec: TensorSpec, case: Case) -> list[Layout]:
    """Return the layouts that mean something for an input, but for equal slices."""
    shape = _shape(spec, case)
    left = set(_EACH)
    if len(shape) < 2:
        left -= {Layout.TRANSPOSED, Layout.PACKED}  # a lone axis packed is one with an offset
    if len(shape) != _CHANNELS_LAST_AXES:
        left.discard(Layout.CHANNELS_LAST)
    return [layout for layout in _EACH if layout in left]


def packable(problem: Problem, case: Case) -> list[dict[str, Layout]]:
    """Return the inputs that one buffer may hold side by side, as fused projections make them."""
    groups: dict[object, list[str]] = {}
    for spec in tensor_inputs(problem):
        shape = _shape(spec, case)
        if len(shape) > 1:
            groups.setdefault((spec.dtype, shape[:-1]), []).append(spec.name)
    return [dict.fromkeys(names, Layout.PACKED) for names in groups.values() if len(names) > 1]


def expandable_axes(spec: TensorSpec, case: Case) -> tuple[str, ...]:
    """Return the axes along which equal slices are legal values that a caller may have.

    The first axis, as a broadcast row has it, and the last one of real values: the gradient of a
    mean over the last axis, a number a row.
    """
    shape = _shape(spec, case)
    real = isinstance(spec.domain, Real | Positive) and spec.dtype.is_floating
    index = isinstance(spec.domain, Index) and not spec.domain.unique
    if not (real or index) or (len(shape) < 2 and not (real and shape and is_gradient(spec))):
        return ()
    ends = dict.fromkeys((0, len(shape) - 1) if real else (0,))
    places = [place for place in ends if shape[place] > 1 and spec.shape[place] in case.axes]
    return tuple(dict.fromkeys(spec.shape[place] for place in places))


def equal_slices(case: Case, spec: TensorSpec, axis: str) -> Case:
    """Return the case with every slice of an input along an axis equal to the first."""
    from cuassay.inputs.fills import default_fill

    own = case.fills.get(spec.name)
    if own is None:
        own = Fill(kind=GENERATED) if case.generator else default_fill(spec)
    taken: dict[str, FillValue] = {"take": (0,), "take_axis": axis, "take_of": case.axes[axis]}
    fill = Fill(kind=own.kind, parameters={**own.parameters, **taken})
    label = f"{case.label}, slices of {spec.name} along {axis} equal"
    return dataclasses.replace(case, label=label, fills={**case.fills, spec.name: fill})


def _arranged(case: Case, tried: Sequence[Layouts], *, label: str) -> Scenario:
    calls: list[list[Step]] = [
        [Arrange(slot="b", layouts=layouts), Call(slot="b", result="")] for layouts in tried
    ]
    return _scenario(case, calls, label=label)


def _scenario(case: Case, calls: Sequence[Sequence[Step]], *, label: str) -> Scenario:
    """Return the scenario of a plain call, each of `calls` on fresh values, a plain call."""
    steps: list[Step] = [
        *call_steps("a", 0, PLAIN),
        Release(name=PLAIN),
    ]
    for number, call in enumerate(calls):
        name = f"r{number}"
        steps.append(Allocate(slot="b", case=0))
        for step in call:
            if isinstance(step, Call | CallInto):
                steps.append(dataclasses.replace(step, result=name))
            else:
                steps.append(step)
        steps += [ReadResult(result=name), Release(name=name), Release(name="b")]
    steps += [
        Allocate(slot="a", case=0),  # anew: some operators write into their inputs
        Call(slot="a", result=AGAIN),
        ReadResult(result=AGAIN),
    ]
    return Scenario(label=f"layouts: {label}", cases=(case,), steps=tuple(steps))


def _shape(spec: TensorSpec, case: Case) -> tuple[int, ...]:
    try:
        return shape_of(spec.shape, case.axes)
    except ProblemError:
        return ()
