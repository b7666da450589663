"""A definition's axes and specs, checked for everything its own evaluator lets through."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping

from cuassay.errors import NoSizeError, ProblemError, suggestion
from cuassay.formats.sol.schema import (
    DTYPES,
    ConstAxisModel,
    DefinitionModel,
    ExprAxisModel,
    TensorModel,
)
from cuassay.model.axes import evaluate
from cuassay.model.domain import Real
from cuassay.model.problem import (
    Axis,
    ConstAxis,
    ExprAxis,
    InputSpec,
    ScalarSpec,
    TensorSpec,
    VarAxis,
)

_PLACEHOLDER = Real()  # replaced by infer.with_domains

_SHOWN = 200  # characters of an expression in a message


def read_axes(definition: DefinitionModel, *, where: str) -> tuple[Axis, ...]:
    """Return the axes in their order. Raises ProblemError for bad names and expressions."""
    axes: list[Axis] = []
    for name, axis in definition.axes.items():
        _identifier(name, f"{where}: axes: axis")
        text = axis.description or ""
        if isinstance(axis, ConstAxisModel):
            axes.append(ConstAxis(name=name, value=axis.value, description=text))
        elif isinstance(axis, ExprAxisModel):
            _check_expression(name, axis.expression, definition, where=where)
            axes.append(ExprAxis(name=name, expression=axis.expression, description=text))
        else:
            axes.append(VarAxis(name=name, minimum=1, declared=False, description=text))
    return tuple(axes)


def _check_expression(
    name: str, expression: str, definition: DefinitionModel, *, where: str
) -> None:
    """Check that the names of an expression are sizes that are known when it is computed."""
    order = list(definition.axes)
    earlier = {
        other
        for other, axis in definition.axes.items()
        if not isinstance(axis, ExprAxisModel) or order.index(other) < order.index(name)
    }
    cut = expression if len(expression) <= _SHOWN else f"{expression[:_SHOWN]}..."
    place = f"{where}: axes.{name}.expression '{cut}'"
    for used in re.findall(r"[^\W\d]\w*", expression):
        if used not in definition.axes:
            near = suggestion(used, definition.axes)
            raise ProblemError(
                f"{place} uses '{used}', which is no axis{': ' + near if near else ''} "
                f"(known: {', '.join(earlier)})"
            )
        if used not in earlier:
            raise ProblemError(
                f"{place} uses the expression axis '{used}' before it is computed; "
                f"declare '{used}' above '{name}'"
            )
    # Try sizes until one gives a number: only the syntax is on trial here
    failure: ProblemError | None = None
    for size in (1, 2, 64, 128, 4096, 55440):
        try:
            evaluate(expression, dict.fromkeys(sorted(earlier), size))
        except NoSizeError:
            return  # well-formed; the workloads' own sizes decide
        except ProblemError as error:
            failure = error
        else:
            return
    raise ProblemError(f"{place}: {failure}")


def read_specs(
    definition: DefinitionModel, *, where: str
) -> tuple[tuple[InputSpec, ...], tuple[TensorSpec, ...]]:
    """Return inputs and outputs with placeholder domains. Raises ProblemError."""
    if not definition.outputs:
        raise ProblemError(f"{where}: outputs is empty: declare at least one output")
    for name in definition.inputs:
        _identifier(name, f"{where}: inputs: input")
        if name in definition.axes:
            raise ProblemError(
                f"{where}: inputs.{name} has the name of an axis; rename one of them"
            )
    for name in definition.outputs:
        _identifier(name, f"{where}: outputs: output")
        if name in definition.inputs:
            raise ProblemError(
                f"{where}: outputs.{name} has the name of an input; rename one of them"
            )
    inputs = tuple(
        _input(name, tensor, definition, where=where) for name, tensor in definition.inputs.items()
    )
    outputs = tuple(
        _tensor(name, tensor, definition, where=f"{where}: outputs.{name}")
        for name, tensor in definition.outputs.items()
    )
    return inputs, outputs


def _input(name: str, tensor: TensorModel, definition: DefinitionModel, *, where: str) -> InputSpec:
    if tensor.shape is not None:
        return _tensor(name, tensor, definition, where=f"{where}: inputs.{name}")
    return ScalarSpec(
        name=name,
        dtype=DTYPES[tensor.dtype],
        domain=_PLACEHOLDER,
        description=tensor.description or "",
    )


def _tensor(
    name: str, tensor: TensorModel, definition: DefinitionModel, *, where: str
) -> TensorSpec:
    shape = tuple(tensor.shape or ())
    for position, dimension in enumerate(shape):
        _check_dimension(dimension, definition.axes, where=f"{where}.shape[{position}]")
    return TensorSpec(
        name=name,
        dtype=DTYPES[tensor.dtype],
        shape=shape,
        domain=_PLACEHOLDER,
        description=tensor.description or "",
    )


def _check_dimension(dimension: str, axes: Mapping[str, object], *, where: str) -> None:
    if dimension in axes:
        return
    if re.fullmatch(r"[0-9]{1,14}", dimension):
        if int(dimension) == 0:
            raise ProblemError(f"{where} is '0': a tensor without elements; expected 1 or more")
        return
    if re.fullmatch(r"-\s*\d+", dimension):
        raise ProblemError(f"{where} is '{dimension}': a size cannot be negative")
    if re.search(r"[-+*/%() ]", dimension):
        raise ProblemError(
            f"{where} is '{dimension}', expected an axis name or a decimal number; "
            f"declare an axis with {{'type': 'expr', 'expression': '{dimension}'}} and name it here"
        )
    near = suggestion(dimension, axes)
    raise ProblemError(
        f"{where}: unknown axis '{dimension}'{': ' + near if near else ''} "
        f"(known: {', '.join(axes) or 'none'}); declare it under 'axes'"
    )


def _identifier(name: str, what: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ProblemError(f"{what} name '{name}' is not a Python identifier; rename it")
