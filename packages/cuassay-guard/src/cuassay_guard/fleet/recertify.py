"""A problem restricted to what production was seen to do, for `cuassay guard recertify`.

The verb writes a stub beside a record of a guard's calls; the stub calls `problem_of`, which
takes the guard's problem and gives it the recorded shapes as workloads, their range as axis
bounds, the recorded dtypes, numbers and magnitudes. The reference stays what it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.model.axes import resolve, shape_of
from cuassay.model.digest import problem_digest
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    Axis,
    InputSpec,
    Problem,
    RandomSource,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)
from cuassay_guard.calls.signature import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedArguments:
    """One recorded signature by parameter."""

    forms: Mapping[str, Form]
    absmax: Mapping[str, float]


def problem_of(record: str | Path) -> Callable[..., object]:
    """Return a function that carries the restricted problem, for a stub's module level.

    Raises ProblemError where the record fits the problem nowhere.
    """
    from cuassay.formats import load_problem
    from cuassay.formats.execute import load_reference

    document = json.loads(Path(record).read_text(encoding="utf-8"))
    base = load_problem(document["problem"])
    calls = [_call(one, base) for one in document["calls"]]
    made = restricted(base, calls, where=str(record))

    def reference(*inputs: object) -> object:
        return load_reference(base).call(*inputs)

    reference.__cuassay_problem__ = made  # type: ignore[attr-defined]
    return reference


def _call(recorded: Mapping[str, Any], base: Problem) -> RecordedArguments:
    """Name the arguments as the problem does: by place, or as they were given."""
    names = [spec.name for spec in base.inputs]
    forms: dict[str, Form] = {}
    for place, form in enumerate(recorded["arguments"]):
        name = form["name"] or (names[place] if place < len(names) else str(place))
        forms[name] = Form(**{**form, "shape": tuple(form["shape"])})
    tensors = [name for name, form in forms.items() if form.dtype]
    known = zip(tensors, recorded["absmax"], strict=False)
    return RecordedArguments(forms=forms, absmax={name: float(value) for name, value in known})


def restricted(base: Problem, calls: Sequence[RecordedArguments], *, where: str) -> Problem:
    """Return `base` on the recorded calls alone."""
    fitting = [(call, axes) for call in calls if (axes := _axes(base, call)) is not None]
    dtypes = _dtypes(base, fitting[0][0]) if fitting else {}
    fitting = [pair for pair in fitting if _dtypes(base, pair[0]) == dtypes]
    if not fitting:
        raise ProblemError(
            f"{where}: no recorded call has the shapes of problem '{base.name}'; its guard and "
            f"its problem do not belong together"
        )
    workloads = [_workload(base, call, axes, number) for number, (call, axes) in enumerate(fitting)]
    made = replace(
        base,
        name=f"{base.name} as seen in production",
        axes=tuple(_bounded(axis, [axes for _, axes in fitting]) for axis in base.axes),
        inputs=tuple(_input(spec, dtypes, [call for call, _ in fitting]) for spec in base.inputs),
        outputs=tuple(
            replace(spec, dtype=dtypes.get(spec.dtype, spec.dtype)) for spec in base.outputs
        ),
        workloads=tuple(workloads),
        digest="",
    )
    return replace(made, digest=problem_digest(made))


def _axes(base: Problem, call: RecordedArguments) -> dict[str, int] | None:
    """Return the sizes of the axes that vary, None where a call does not fit."""
    variable = {axis.name for axis in base.var_axes()}
    found: dict[str, int] = {}
    tensors = [spec for spec in base.inputs if isinstance(spec, TensorSpec)]
    for spec in tensors:
        form = call.forms.get(spec.name)
        if form is None or len(form.shape) != len(spec.shape):
            return None
        for name, size in zip(spec.shape, form.shape, strict=True):
            if name in variable and found.setdefault(name, size) != size:
                return None
    if set(found) != variable:
        return None
    try:
        sizes = resolve(base.axes, found)
        same = all(shape_of(s.shape, sizes) == call.forms[s.name].shape for s in tensors)
    except ProblemError:
        return None
    return found if same else None


def _dtypes(base: Problem, call: RecordedArguments) -> dict[DType, DType]:
    """Return which dtype of the problem was which in production."""
    found: dict[DType, DType] = {}
    known = {member.value for member in DType}
    for spec in base.inputs:
        if isinstance(spec, TensorSpec) and call.forms[spec.name].dtype in known:
            found.setdefault(spec.dtype, DType(call.forms[spec.name].dtype))
    return found


def _workload(
    base: Problem, call: RecordedArguments, axes: dict[str, int], number: int
) -> Workload:
    sources = {
        spec.name: ScalarSource(value=value)
        if isinstance(spec, ScalarSpec) and (value := _value(call, spec.name)) is not None
        else RandomSource()
        for spec in base.inputs
    }
    tolerance = base.workloads[0].tolerance if base.workloads else None
    made = Workload(id=f"seen{number}", axes=axes, sources=sources)
    return made if tolerance is None else replace(made, tolerance=tolerance)


def _value(call: RecordedArguments, name: str) -> float | int | bool | None:
    form = call.forms.get(name)
    return None if form is None else form.value


def _bounded(axis: Axis, seen: Sequence[Mapping[str, int]]) -> Axis:
    if not isinstance(axis, VarAxis):
        return axis
    sizes = [axes[axis.name] for axes in seen]
    return replace(axis, minimum=min(sizes), maximum=max(sizes), declared=True)


def _input(
    spec: InputSpec, dtypes: Mapping[DType, DType], calls: Sequence[RecordedArguments]
) -> InputSpec:
    """Return an input in its recorded dtype, real numbers within their recorded magnitude."""
    if isinstance(spec, ScalarSpec):
        return spec
    made = replace(spec, dtype=dtypes.get(spec.dtype, spec.dtype))
    largest = max((call.absmax.get(spec.name, 0.0) for call in calls), default=0.0)
    plain = isinstance(spec.domain, Real) and spec.domain.low is None and spec.domain.high is None
    if not plain or not largest or not math.isfinite(largest):
        return made
    edge = 2.0 ** math.ceil(math.log2(largest))
    return replace(made, domain=Real(low=-edge, high=edge), domain_source="seen in production")
