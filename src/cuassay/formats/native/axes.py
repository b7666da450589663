"""Axes and workloads of a native problem, checked against its specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TypeAlias

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.axes import names_in, resolve, shape_of
from cuassay.model.domain import SizeOf, domain_axes
from cuassay.model.problem import (
    Axis,
    ConstAxis,
    CustomSource,
    ExprAxis,
    InputSource,
    InputSpec,
    RandomSource,
    Scalar,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    Tolerance,
    VarAxis,
    Workload,
)

AxisForm: TypeAlias = int | str | tuple[int, int] | tuple[int, int, int] | Set[int]
_FORMS = '4096, (1, 65536), (64, 8192, 64), {32, 64, 128} or "ceil(hidden / 16)"'


def read_axes(
    forms: Mapping[str, AxisForm],
    inputs: Sequence[InputSpec],
    outputs: Sequence[TensorSpec],
    *,
    where: str,
) -> tuple[Axis, ...]:
    """Return the axes and check that shapes and domains use no other.

    An argument has the name of an axis only if it is that axis's size. Raises ProblemError.
    """
    axes = tuple(
        _axis(name, form, where=f"{where}: axes['{name}']") for name, form in forms.items()
    )
    names = {axis.name for axis in axes}
    for axis in axes:
        if isinstance(axis, ExprAxis):
            check_names(axis.expression, names, where=f"{where}: axes['{axis.name}']")
    for spec in (*inputs, *outputs):
        if spec.name in names and not is_axis(spec):
            other = "a tensor; rename one"
            if isinstance(spec, ScalarSpec):
                other = (
                    "a number; rename one, or write "
                    f"scalar('{spec.dtype}', size_of='{spec.name}') if it is the size of that axis"
                )
            raise ProblemError(f"{where}: '{spec.name}' names an axis and {other}")
        for dimension in spec.shape if isinstance(spec, TensorSpec) else ():
            check_names(dimension, names, where=f"{where}: the shape of '{spec.name}'")
        for expression in domain_axes(spec.domain):
            check_names(expression, names, where=f"{where}: the domain of '{spec.name}'")
    return axes


def is_axis(spec: InputSpec) -> bool:
    """Whether an argument is the size of the axis of its own name."""
    return spec.domain == SizeOf(axis=spec.name)


def _axis(name: str, form: AxisForm, *, where: str) -> Axis:
    if not name.isidentifier():
        raise ProblemError(f"{where}: an axis name must be a Python identifier; rename it")
    match form:
        case str():
            return ExprAxis(name=name, expression=form)
        case bool():
            pass
        case int(value) if value >= 1:
            return ConstAxis(name=name, value=value)
        case int(minimum), int(maximum):
            return var_axis(name, minimum, maximum, multiple_of=1, where=where)
        case int(minimum), int(maximum), int(multiple_of):
            if isinstance(form, list):
                raise ProblemError(
                    f"{where} is {form!r}: {{{', '.join(map(str, form))}}} is a set of sizes, "
                    f"({minimum}, {maximum}, {multiple_of}) a range with a step; write one of them"
                )
            return var_axis(name, minimum, maximum, multiple_of=multiple_of, where=where)
        case Set() if 0 in form:
            raise ProblemError(
                f"{where} is {set(form)!r}, expected sizes of 1 or more in a set; "
                "a range such as (0, 64) may begin with 0"
            )
        case Set() if form and all(type(size) is int and size >= 1 for size in form):
            return VarAxis(
                name=name,
                minimum=min(form),
                maximum=max(form),
                sizes=tuple(sorted(form)),
                declared=True,
            )
    raise ProblemError(f"{where} is {form!r}, expected a form such as {_FORMS}")


def var_axis(name: str, minimum: int, maximum: int, *, multiple_of: int, where: str) -> VarAxis:
    """Return an axis with declared bounds. Raises ProblemError where no size lies within."""
    if minimum < 0 or multiple_of < 1 or maximum // multiple_of * multiple_of < max(minimum, 1):
        raise ProblemError(
            f"{where}: no size lies in [{minimum}, {maximum}] and is a multiple of {multiple_of}; "
            "expected 0 <= minimum <= maximum with at least one size of 1 or more between"
        )
    return VarAxis(
        name=name, minimum=minimum, maximum=maximum, multiple_of=multiple_of, declared=True
    )


def check_names(expression: str, names: set[str], *, where: str) -> None:
    """Raise ProblemError unless `expression` is one over the axes `names`."""
    try:
        named = names_in(expression)
    except (SyntaxError, ValueError):
        raise ProblemError(
            f"{where}: '{expression}' is no axis, size or expression of axes "
            f"(known axes: {', '.join(sorted(names)) or 'none'})"
        ) from None
    for name in sorted(named - names):
        raise ProblemError(f"{where}: {UnknownNameError('axis', name, sorted(names))}")


def read_workloads(
    given: Sequence[Mapping[str, Scalar]],
    axes: tuple[Axis, ...],
    inputs: Sequence[InputSpec],
    *,
    outputs: Sequence[TensorSpec],
    tolerance: Tolerance | None,
    custom: bool,
    where: str,
) -> tuple[Workload, ...]:
    """Return the workloads; each binds every var axis and may give scalars. Raises ProblemError."""
    if not given:
        raise ProblemError(
            f'{where}: workloads is empty; give at least one, such as [{{"rows": 128}}]'
        )
    return tuple(
        Workload(
            id=f"w{number}",
            axes=_bind(item, axes, inputs, outputs=outputs, where=f"{where}: workloads[{number}]"),
            sources={spec.name: _source(spec, item, custom=custom) for spec in inputs},
            tolerance=tolerance,
        )
        for number, item in enumerate(given)
    )


def _bind(
    item: Mapping[str, Scalar],
    axes: tuple[Axis, ...],
    inputs: Sequence[InputSpec],
    *,
    outputs: Sequence[TensorSpec],
    where: str,
) -> dict[str, int]:
    legal = [axis.name for axis in axes if not isinstance(axis, ExprAxis)]
    scalars = [one.name for one in inputs if isinstance(one, ScalarSpec) and not is_axis(one)]
    bound: dict[str, int] = {}
    for name, value in item.items():
        if name in scalars:
            continue
        if name not in legal:
            raise ProblemError(f"{where}: {UnknownNameError('axis', name, [*legal, *scalars])}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProblemError(f"{where}['{name}'] is {value!r}, expected an integer size")
        bound[name] = value
    for axis in axes:
        if isinstance(axis, VarAxis):
            check_size(axis, bound, where=where)
    try:
        sizes = resolve(axes, bound)
        tensors = [spec for spec in (*inputs, *outputs) if isinstance(spec, TensorSpec)]
        shapes = {spec.name: shape_of(spec.shape, sizes) for spec in tensors}
    except ProblemError as failure:
        raise ProblemError(f"{where}: {failure}") from None
    for name, shape in shapes.items():
        if any(size < 1 for size in shape):
            raise ProblemError(
                f"{where} gives '{name}' the shape {list(shape)}, expected sizes of 1 or more"
            )
    return bound


def check_size(axis: VarAxis, bound: Mapping[str, int], *, where: str) -> None:
    """Raise ProblemError unless a workload's size of the axis lies within its bounds."""
    if axis.name not in bound:
        raise ProblemError(f"{where} gives axis '{axis.name}' no size; add '{axis.name}': SIZE")
    size = bound[axis.name]
    if axis.sizes and size not in axis.sizes:
        raise ProblemError(
            f"{where}['{axis.name}'] is {size}, expected one of "
            f"{', '.join(map(str, axis.sizes))}; change the workload or the axis"
        )
    fits = axis.minimum <= size <= (axis.maximum or size) and size % axis.multiple_of == 0
    if not fits or size < 1:
        step = f" and a multiple of {axis.multiple_of}" if axis.multiple_of > 1 else ""
        raise ProblemError(
            f"{where}['{axis.name}'] is {size}, expected a size in "
            f"[{max(axis.minimum, 1)}, {axis.maximum}]{step}; change the workload or the axis"
        )


def _source(spec: InputSpec, item: Mapping[str, Scalar], *, custom: bool) -> InputSource:
    if spec.name in item and not is_axis(spec):
        return ScalarSource(value=item[spec.name])
    if custom:
        return CustomSource()
    if isinstance(spec, ScalarSpec) and spec.default is not None:
        return ScalarSource(value=spec.default)
    return RandomSource()
