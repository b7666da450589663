"""The signature of a native problem: `Annotated` parameters and returns as specs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from cuassay.errors import ProblemError
from cuassay.formats.native.spec import ScalarAnnotation, TensorAnnotation
from cuassay.formats.native.structured import Structured, is_leaf, structured
from cuassay.model.dtype import DType
from cuassay.model.problem import InputSpec, ScalarSpec, TensorSpec

_TENSOR_EXAMPLE = 'Annotated[torch.Tensor, tensor("float32", "rows")]'
_SCALAR_EXAMPLE = 'Annotated[float, scalar("float32", low=1e-8, high=1e-2)]'


def read_signature(
    function: Callable[..., object], *, where: str
) -> tuple[tuple[InputSpec, ...], tuple[TensorSpec, ...], Structured | None]:
    """Return inputs, outputs, and how they make a call that passes more than them by position.

    The last is None where the function takes its inputs by position and returns its outputs.
    Raises ProblemError.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as failure:
        by_name = type(failure) is TypeError
        fields = "; fields of a domain go by name: domains.Index(axis='vocab')" if by_name else ""
        raise ProblemError(
            f"{where}: its annotations cannot be evaluated: {failure}; every name in them must "
            f"be defined at the top level of the module{fields}"
        ) from None
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ProblemError(
                f"{where}: parameter '{parameter}' is {parameter.kind.description}, expected "
                "named parameters: a problem says each of its inputs"
            )
    plain = all(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and not _is_structured(hints.get(name), parameter)
        for name, parameter in parameters.items()
    )
    structure = None
    if not plain or _is_nested(hints.get("return")):
        structure = _structured(hints, parameters, where=where)
        inputs = [
            _input_of(name, leaf, where=f"{where}: input '{name}'")
            for name, leaf in structure.leaves.items()
        ]
        outputs = tuple(_spec(name, leaf) for name, leaf in structure.outputs.items())
    else:
        inputs = [
            _input(name, hints.get(name), where=f"{where}: parameter '{name}'")
            for name in parameters
        ]
        outputs = _outputs(hints.get("return"), where=where)
    taken = {spec.name for spec in inputs}
    for output in outputs:
        if output.name in taken:
            raise ProblemError(f"{where}: the name '{output.name}' is used twice; rename an output")
        taken.add(output.name)
    return tuple(inputs), outputs, structure


def _is_structured(hint: Any, parameter: inspect.Parameter) -> bool:
    """Whether a parameter is more than one tensor that is read, or one number."""
    if get_origin(hint) is not Annotated:
        return parameter.default is not parameter.empty
    leaves = [one for one in get_args(hint)[1:] if is_leaf(one)]
    if not leaves:
        return True
    first = leaves[0]
    return isinstance(first, TensorAnnotation) and (first.out or first.updated)


def _is_nested(hint: Any) -> bool:
    """Whether a return is neither a tensor nor a tuple of tensors."""
    if get_origin(hint) is not Annotated:
        return False
    return not any(is_leaf(one) for one in get_args(hint)[1:])


def _structured(
    hints: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], *, where: str
) -> Structured:
    """Return how a call is made of flat inputs. Raises ProblemError."""
    arguments: dict[str, object] = {}
    for name, parameter in parameters.items():
        hint = hints.get(name)
        if get_origin(hint) is Annotated:
            base, value = get_args(hint)[:2]
            if isinstance(base, type) and not is_leaf(value) and not isinstance(value, base):
                _annotated(hint, where=f"{where}: parameter '{name}'")
            arguments[name] = value
        elif parameter.default is not parameter.empty:
            arguments[name] = parameter.default
        else:
            _annotated(hint, where=f"{where}: parameter '{name}'")
    returned = hints.get("return")
    result: object = None
    if get_origin(returned) is Annotated:
        result = get_args(returned)[1]
    elif get_origin(returned) is tuple:
        result = tuple(_annotated(part, where=f"{where}: return value")[1]
                       for part in get_args(returned))  # fmt: skip
    return structured(arguments, result, where=where)


def _input(name: str, hint: Any, *, where: str) -> InputSpec:
    base, annotation = _annotated(hint, where=where)
    if isinstance(annotation, TensorAnnotation):
        _check_tensor_type(base, where=where)
        if annotation.name not in (None, name):
            raise ProblemError(
                f"{where}: tensor(..., name='{annotation.name}') differs from the parameter's "
                "name; leave name= to outputs"
            )
    else:
        dtype = annotation.dtype
        expected = bool if dtype is DType.BOOL else float if dtype.is_floating else int
        if base is not expected:
            kind = getattr(base, "__name__", str(base))
            raise ProblemError(
                f"{where} is annotated as {kind} with scalar('{dtype}'), expected "
                f"{expected.__name__}: Annotated[{expected.__name__}, scalar('{dtype}', ...)]"
            )
    return _input_of(name, annotation, where=where)


def _input_of(
    name: str, annotation: TensorAnnotation | ScalarAnnotation, *, where: str
) -> InputSpec:
    if isinstance(annotation, TensorAnnotation):
        integer = not annotation.dtype.is_floating and annotation.dtype is not DType.BOOL
        if integer and not annotation.declared:
            raise ProblemError(
                f"{where}: an integer tensor has no natural range; declare its domain, for example "
                f'tensor("{annotation.dtype}", ..., domain=domains.Index(axis="vocab")) or '
                "domains.IntegerRange(low=..., high=...), after from cuassay import domains"
            )
        return _spec(name, annotation)
    return ScalarSpec(
        name=name,
        dtype=annotation.dtype,
        domain=annotation.domain,
        domain_source="declared" if annotation.declared else "default",
        default=annotation.default,
    )


def _spec(name: str, annotation: TensorAnnotation) -> TensorSpec:
    return TensorSpec(
        name=name,
        dtype=annotation.dtype,
        shape=annotation.shape,
        domain=annotation.domain,
        domain_source="declared" if annotation.declared else "default",
        stale=annotation.stale,
    )


def _outputs(hint: Any, *, where: str) -> tuple[TensorSpec, ...]:
    if hint is None or hint is type(None):
        raise ProblemError(
            f"{where}: the return has no annotation, expected -> {_TENSOR_EXAMPLE} or a tuple[...] "
            "of those"
        )
    several = get_origin(hint) is tuple
    parts = get_args(hint) if several else (hint,)
    outputs = []
    for position, part in enumerate(parts):
        place = f"{where}: return value {position}" if several else f"{where}: return value"
        base, annotation = _annotated(part, where=place)
        if not isinstance(annotation, TensorAnnotation):
            raise ProblemError(f"{place} is a scalar(...), expected tensor(...): return a tensor")
        _check_tensor_type(base, where=place)
        name = annotation.name or (f"output_{position}" if several else "output")
        outputs.append(_spec(name, annotation))
    if not outputs:
        raise ProblemError(f"{where}: the return is an empty tuple; return at least one tensor")
    return tuple(outputs)


def _annotated(hint: Any, *, where: str) -> tuple[Any, TensorAnnotation | ScalarAnnotation]:
    example = f"{_TENSOR_EXAMPLE} or {_SCALAR_EXAMPLE}"
    if hint is None:
        raise ProblemError(f"{where} has no annotation, expected {example}")
    if get_origin(hint) is not Annotated:
        shown = getattr(hint, "__name__", None) or str(hint)
        raise ProblemError(f"{where} is annotated as {shown}, expected {example}")
    base, *extras = get_args(hint)
    found = [extra for extra in extras if isinstance(extra, TensorAnnotation | ScalarAnnotation)]
    if len(found) != 1:
        raise ProblemError(
            f"{where}: its Annotated[...] holds {len(found)} tensor(...) or scalar(...), "
            f"expected exactly one: {example}"
        )
    return base, found[0]


def _check_tensor_type(base: Any, *, where: str) -> None:
    name = getattr(base, "__name__", str(base))
    module = getattr(base, "__module__", "")
    if name != "Tensor" or not (module == "torch" or module.startswith("torch.")):
        raise ProblemError(
            f"{where} is annotated as {name} with tensor(...), expected torch.Tensor"
        )
