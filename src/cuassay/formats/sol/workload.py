"""Lines of workload.jsonl as workloads, each checked against the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError, UnknownNameError, suggestion
from cuassay.formats import safetensors_file
from cuassay.formats.sol.schema import CustomModel, SafetensorsModel, ScalarModel, WorkloadModel
from cuassay.formats.strict import read_model
from cuassay.formats.textfile import json_kind, parse_json
from cuassay.model.axes import resolve, shape_of
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    Axis,
    ConstAxis,
    CustomSource,
    InputSource,
    InputSpec,
    RandomSource,
    SafetensorsSource,
    Scalar,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    Tolerance,
    VarAxis,
    Workload,
)

_MOST = 10_000  # lines; a benchmark lists tens


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a workload is checked against, and how strictly."""

    axes: tuple[Axis, ...]
    inputs: tuple[InputSpec, ...]
    outputs: tuple[TensorSpec, ...]
    generator: str | None
    folder: Path
    strict: bool = False
    notes: list[str] = field(default_factory=list)


class _LeftOut(ProblemError):
    """A workload on which nothing can be judged: an empty tensor, or a stored one is not there."""


def json_lines(text: str, *, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, object) of each line that is not blank. Raises ProblemError."""
    count = text.count("\n")
    if count > _MOST:
        raise ProblemError(
            f"{where} has {count} lines, expected at most {_MOST} workloads; keep those that differ"
        )
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            data = parse_json(line, where=where, error=ProblemError, first_line=number)
            yield f"{where}: line {number}", data


def read_workloads(
    lines: Sequence[tuple[str, dict[str, Any]]], declared: Declared, *, where: str
) -> tuple[Workload, ...]:
    """Return the workloads of `lines` in their order.

    A workload with an empty tensor or without its stored tensors is left out, inputs that the
    definition does not know are ignored and a repeated uuid is renamed, each with a note;
    strictly, all these are refused. Raises ProblemError where no workload is left, or one
    contradicts the definition.
    """
    workloads: dict[str, Workload] = {}
    left_out: list[str] = []
    names = [spec.name for spec in declared.inputs]
    given = [list(data["inputs"]) for _, data in lines if isinstance(data.get("inputs"), dict)]
    unknown = Counter(name for inputs in given for name in inputs if name not in names)
    for name, count in unknown.items():
        if not declared.strict:
            text = UnknownNameError("input", name, names)
            declared.notes.append(f"{where}: ignored in {count} of {len(lines)} workloads: {text}")
    for number, (place, data) in enumerate(lines, start=1):
        try:
            workload = _workload(data, declared, where=place, number=number)
        except _LeftOut as reason:
            if declared.strict:
                raise ProblemError(str(reason)) from None
            left_out.append(str(reason))
            continue
        key = workload.id
        if key in workloads and declared.strict:
            raise ProblemError(f"{place}: uuid '{key}' was used by an earlier line; change one")
        if key in workloads:
            declared.notes.append(f"{place}: uuid '{key}' is taken; named '{key}-{number}' here")
            workload = replace(workload, id=f"{key}-{number}")
        workloads[workload.id] = workload
    if left_out:
        some = f"{len(left_out)} of {len(lines)} workloads are left out"
        if not workloads:
            raise ProblemError(f"{some}, so none remains: {left_out[0]}")
        declared.notes.append(f"{some}: {left_out[0]}")
    if not workloads:
        raise ProblemError(
            f"{where} holds no workload: expected one JSON object a line, such as "
            '{"uuid": "a", "axes": {"n": 128}, "inputs": {}}'
        )
    return tuple(workloads.values())


def undeclared_axes(
    lines: Sequence[tuple[str, dict[str, Any]]], axes: Sequence[Axis], *, notes: list[str]
) -> tuple[VarAxis, ...]:
    """Return axes that every line binds though the definition does not declare them.

    A generator may read such a size. It stays within the sizes that the lines give, since
    no shape says what else it may be.
    """
    known = {axis.name for axis in axes}
    bound = [data["axes"] for _, data in lines if isinstance(data.get("axes"), dict)]
    missing = {axis.name for axis in axes if isinstance(axis, VarAxis)} - {
        name for sizes in bound for name in sizes
    }
    found: list[VarAxis] = []
    for name in dict.fromkeys(name for sizes in bound for name in sizes if name not in known):
        given = [sizes.get(name) for sizes in bound]
        sizes = [size for size in given if isinstance(size, int) and size >= 0]
        misspelt = suggestion(name, missing)
        if misspelt or len(sizes) < len(lines) or not name.isidentifier():
            continue
        found.append(VarAxis(name=name, minimum=min(sizes), maximum=max(sizes)))
        notes.append(
            f"the workloads bind the axis '{name}', which the definition does not declare; "
            f"it is read as a size from {min(sizes)} to {max(sizes)}"
        )
    return tuple(found)


def _workload(data: dict[str, Any], declared: Declared, *, where: str, number: int) -> Workload:
    model = read_model(
        WorkloadModel,
        data,
        where=where,
        error=ProblemError,
        strict=declared.strict,
        notes=declared.notes,
    )
    known = [axis.name for axis in declared.axes]
    unknown = [name for name in model.axes if name not in known]
    variable = [axis.name for axis in declared.axes if isinstance(axis, VarAxis)]
    missing = [name for name in variable if name not in model.axes]
    for name in unknown:
        text = f"{where}: axes: {UnknownNameError('axis', name, known)}"
        if declared.strict or missing:  # one may be the other, misspelt
            raise ProblemError(text)
        declared.notes.append(f"ignored: {text}")
    axes = {name: size for name, size in model.axes.items() if name not in unknown}
    for axis in declared.axes:
        if isinstance(axis, VarAxis) and axis.name not in model.axes:
            raise ProblemError(
                f"{where}: axes: the var axis '{axis.name}' has no size; "
                f'add "{axis.name}": SIZE to this line\'s axes'
            )
        given = model.axes.get(axis.name)
        if isinstance(axis, ConstAxis) and given is not None and given != axis.value:
            declared.notes.append(f"{where}: axes.{axis.name} overrides {axis.value} by {given}")
    try:
        sizes = resolve(declared.axes, axes)
    except ProblemError as failure:
        raise ProblemError(f"{where}: {failure}; change the line's axes") from None
    for name, given in axes.items():
        if sizes[name] != given:
            raise ProblemError(
                f"{where}: axes.{name} is {given} but its expression gives {sizes[name]}; "
                "leave expression axes out of the line"
            )
    for spec in (*declared.inputs, *declared.outputs):
        shape = spec.shape if isinstance(spec, TensorSpec) else ()
        for dimension in shape:
            if shape_of((dimension,), sizes) == (0,):
                raise _LeftOut(
                    f"{where}: axis '{dimension}' has size 0, so '{spec.name}' has no elements; "
                    "expected 1 or more: nothing can be judged on an empty tensor. Give it a "
                    "size, or read without --strict to leave this workload out"
                )
    _check_sources(model, declared, where=where)
    if model.tolerance is None:
        tolerance = Tolerance()
    else:
        tolerance = Tolerance(
            atol=model.tolerance.max_atol,
            rtol=model.tolerance.max_rtol,
            required_matched_ratio=model.tolerance.required_matched_ratio,
            max_error_cap=model.tolerance.max_error_cap,
            allow_negative_inf=model.tolerance.allow_negative_inf,
            origin="workload",
        )
    return Workload(
        id=model.uuid or f"workload-{number}",
        axes={name: size for name, size in model.axes.items() if name in sizes},
        sources={
            spec.name: _source(spec, model, declared, sizes=sizes, where=where)
            for spec in declared.inputs
        },
        tolerance=tolerance,
    )


def _check_sources(model: WorkloadModel, declared: Declared, *, where: str) -> None:
    names = [spec.name for spec in declared.inputs]
    for name in model.inputs:
        if name not in names and declared.strict:
            raise ProblemError(f"{where}: inputs: {UnknownNameError('input', name, names)}")
    custom = [name for name in names if isinstance(model.inputs.get(name), CustomModel)]
    if custom and declared.generator is None:
        raise ProblemError(
            f"{where}: inputs.{custom[0]} is custom, but the definition has no "
            "'custom_inputs_entrypoint'; name the generator function there"
        )
    if custom and len(custom) < len(names) and declared.strict:
        other = next(name for name in names if name not in custom)
        raise ProblemError(
            f"{where}: inputs.{custom[0]} is custom but '{other}' is not: where one input is "
            "custom, all must be; make every input custom, or read without --strict"
        )


def _source(
    spec: InputSpec, model: WorkloadModel, declared: Declared, *, sizes: dict[str, int], where: str
) -> InputSource:
    place = f"{where}: inputs.{spec.name}"
    match model.inputs.get(spec.name):
        case CustomModel():
            return CustomSource()
        case ScalarModel(value=value):
            if isinstance(spec, TensorSpec) and spec.shape:
                raise ProblemError(
                    f"{place} is a scalar, but the definition declares a tensor of shape "
                    f"[{', '.join(spec.shape)}]; use random, safetensors or custom"
                )
            return ScalarSource(value=_scalar(value, spec.dtype, declared, where=place))
        case SafetensorsModel() as stored:
            if isinstance(spec, ScalarSpec):
                raise ProblemError(
                    f"{place} is a Python scalar (shape null), expected a scalar descriptor "
                    "such as "
                    '{"type": "scalar", "value": 1}, not safetensors'
                )
            try:
                file = safetensors_file.locate(stored.path, declared.folder, where=place)
            except safetensors_file.MissingFileError as failure:
                raise _LeftOut(str(failure)) from None
            shape = shape_of(spec.shape, sizes)
            safetensors_file.check_tensor(
                file, stored.tensor_key, dtype=spec.dtype, shape=shape, where=place
            )
            return SafetensorsSource(path=str(file), key=stored.tensor_key)
        case _:
            return RandomSource()


def _scalar(value: Scalar, dtype: DType, declared: Declared, *, where: str) -> Scalar:
    """Return the value as its declared dtype means it; a note where it was written otherwise."""
    is_bool = isinstance(value, bool)
    if dtype.is_floating and not is_bool:
        return float(value)
    if dtype is DType.BOOL and (is_bool or value in (0, 1)):
        return bool(value)
    if not (dtype.is_floating or dtype is DType.BOOL or is_bool):
        if isinstance(value, int):
            return value
        if value == value // 1 and abs(value) < 2**53:
            declared.notes.append(f"{where}: read {value!r} as the integer {int(value)}")
            return int(value)
    raise ProblemError(f"{where}.value is {json_kind(value)}, expected a value of dtype {dtype}")
