"""Recorded calls as inputs of a problem: real tensors, kept by `cuassay loop capture`.

A folder holds `calls.jsonl`, one call a line, and a safetensors file a call; nothing is pickled.
A folder `recorded` beside a problem's file is read with it. Each call that fits becomes a
workload whose every input is as it was in the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats.safetensors_file import stored_names, tensor_facts
from cuassay.formats.textfile import JSON_LIMIT_BYTES, parse_json, read_text
from cuassay.model.axes import evaluate, resolve
from cuassay.model.digest import problem_digest
from cuassay.model.problem import (
    RECORDED,
    ConstAxis,
    ExprAxis,
    InputSource,
    Problem,
    SafetensorsSource,
    ScalarSource,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)

NAME, LIST = "recorded", "calls.jsonl"


class _Unfit(Exception):
    """A call that is none of this problem, with the reason."""


def recorded_folder(problem: Problem) -> Path | None:
    """Return the folder of recorded calls beside a problem's file, if there is one."""
    if problem.path is None:
        return None
    folder = problem.path if problem.path.is_dir() else problem.path.parent
    choices = (problem.path.with_suffix(f".{NAME}"), folder / NAME)
    return next((choice for choice in choices if (choice / LIST).is_file()), None)


def with_calls(problem: Problem, folder: Path, *, notes: list[str]) -> Problem:
    """Return the problem with the calls of `folder` as further workloads.

    Calls that do not fit are told in `notes`. Raises ProblemError where none fits or the folder
    cannot be read.
    """
    where = folder / LIST
    text = read_text(where, ProblemError, limit_bytes=JSON_LIMIT_BYTES)
    made: list[Workload] = []
    reasons: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            call = parse_json(line, where=str(where), error=ProblemError, first_line=number)
            made.append(_workload(problem, call, folder, number=len(made) + 1))
        except (_Unfit, ProblemError) as failure:
            reasons.append(f"{where}: line {number}: {failure}")
    if not made:
        first = reasons[0] if reasons else f"{where} holds no call"
        raise ProblemError(
            f"no recorded call fits problem '{problem.name}': {first}; record calls of the "
            "function whose arguments are the problem's inputs, by name or in their order"
        )
    notes.append(f"{len(made)} recorded calls of {folder} are used")
    notes += [f"not used: {reason}" for reason in reasons[:3]]
    found = replace(problem, workloads=(*problem.workloads, *made))
    return replace(found, digest=problem_digest(found))


def _workload(problem: Problem, call: Mapping[str, Any], folder: Path, *, number: int) -> Workload:
    # The recorded argument of each input: by name, else in order
    listed = call.get("arguments")
    if not isinstance(listed, list) or not all(isinstance(a, dict) for a in listed):
        raise _Unfit("'arguments' is no list of objects")
    by_name = {str(argument.get("name")): argument for argument in listed}
    names = [spec.name for spec in problem.inputs]
    if all(name in by_name for name in names):
        given = {name: by_name[name] for name in names}
    else:
        ordered = [argument for argument in listed if argument.get("kind") != "state"]
        if len(ordered) != len(names):
            raise _Unfit(
                f"{len(ordered)} arguments were recorded, the problem has {len(names)} inputs"
            )
        given = dict(zip(names, ordered, strict=True))
    file = folder / str(call.get("file", ""))
    facts = tensor_facts(file, where=str(file))
    sizes: dict[str, int] = {}
    sources: dict[str, InputSource] = {}
    for spec in problem.inputs:
        argument = given[spec.name]
        if isinstance(spec, ScalarSpec):
            value = argument.get("value")
            if not isinstance(value, bool | int | float):
                raise _Unfit(
                    f"'{spec.name}' was recorded as {json.dumps(value)[:40]}, expected a number"
                )
            scalar = (
                float(value) if spec.dtype.is_floating and not isinstance(value, bool) else value
            )
            sources[spec.name] = ScalarSource(value=scalar)
            continue
        key = argument.get("key")
        if key not in facts:
            raise _Unfit(f"'{spec.name}' is no tensor of the recording")
        dtype, shape = facts[key]
        if dtype not in stored_names(spec.dtype):
            raise _Unfit(
                f"'{spec.name}' was recorded as {dtype}, the problem has {spec.dtype.value}"
            )
        # Bind the var axes that a tensor's shape shows; check those that it repeats
        if len(shape) != len(spec.shape):
            raise _Unfit(f"'{spec.name}' has {len(shape)} dimensions, expected {len(spec.shape)}")
        var = {axis.name for axis in problem.axes if isinstance(axis, VarAxis)}
        const = {axis.name: axis.value for axis in problem.axes if isinstance(axis, ConstAxis)}
        for name, size in zip(spec.shape, shape, strict=True):
            wanted = const.get(name, int(name) if name.isdecimal() else sizes.get(name, size))
            if name in var:
                sizes.setdefault(name, size)
            if wanted != size:
                raise _Unfit(f"'{spec.name}' has size {size} where axis '{name}' is {wanted}")
        sources[spec.name] = SafetensorsSource(path=str(file.absolute()), key=key)
    _check_expressions(problem, given, facts, sizes)
    first = problem.workloads[0] if problem.workloads else None
    return Workload(
        id=f"{RECORDED}{number}",
        axes=sizes,
        sources=sources,
        **({"tolerance": first.tolerance} if first else {}),
    )


def _check_expressions(
    problem: Problem,
    given: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, tuple[str, tuple[int, ...]]],
    sizes: Mapping[str, int],
) -> None:
    """Check the dimensions that are computed, and that every axis is bound."""
    try:
        every = resolve(problem.axes, sizes)
    except ProblemError as failure:
        raise _Unfit(str(failure)) from None
    computed = {axis.name for axis in problem.axes if isinstance(axis, ExprAxis)}
    for spec in (one for one in problem.inputs if isinstance(one, TensorSpec)):
        shape = facts[given[spec.name]["key"]][1]
        for name, size in zip(spec.shape, shape, strict=True):
            if name in computed and evaluate(name, every) != size:
                raise _Unfit(f"'{spec.name}' has size {size} where axis '{name}' is {every[name]}")
