"""What a proof is made of: the domain of a problem in its terms, and outlines of launches."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from cuassay.build.machine.prove import packed
from cuassay.judge.proofs.launch_samples import LaunchSample, Samples
from cuassay.model.domain import Index, IntegerRange, Lengths, Offsets
from cuassay.model.dtype import DType
from cuassay.model.problem import ConstAxis, ExprAxis, Problem, TensorSpec, VarAxis
from cuassay.model.recording import Recording

_INTEGER_BYTES = {DType.INT32: 4, DType.INT64: 8}


def request_of(problem: Problem, samples: Samples, *, limit_s: float, elements: int = 0) -> bytes:
    """Return what a proof is made of, as bytes for `build.machine.prove.prove`."""
    free = {axis.name for axis in problem.var_axes()}

    def outlines(samples: Sequence[LaunchSample]) -> list[tuple[dict[str, int], Recording]]:
        return [
            ({name: one.axes[name] for name in one.axes if name in free}, one.recording)
            for one in samples
        ]

    asked = {**wanted(problem), "limit_s": limit_s, "elements": elements}
    asked["values"] = {
        name: one for name, one in asked["values"].items() if name not in samples.changed
    }
    return packed(outlines(samples.found), asked, outlines(samples.beyond))


def wanted(problem: Problem) -> dict[str, Any]:
    """Return a problem's domain as the proof takes it: axes, tensors, bounds of integers in them.

    What cannot be said in its terms is left out: then more has to be shown.
    """
    known: dict[str, list[Any]] = {}
    axes: dict[str, Any] = {}
    for axis in problem.axes:
        match axis:
            case VarAxis():
                high = axis.maximum
                if axis.sizes:
                    high = max(axis.sizes)
                axes[axis.name] = [axis.minimum, high, axis.multiple_of]
                known[axis.name] = [axis.name]
            case ConstAxis():
                known[axis.name] = [axis.value]
            case ExprAxis():
                found = _polish(axis.expression, known)
                if found is not None:
                    known[axis.name] = found
    tensors = []
    values: dict[str, Any] = {}
    for spec in (*problem.inputs, *problem.outputs):
        if not isinstance(spec, TensorSpec):
            continue
        shape = [_polish(one, known) for one in spec.shape]
        if all(one is not None for one in shape):
            tensors.append(shape)
    for spec in problem.inputs:
        if isinstance(spec, TensorSpec) and spec.dtype in _INTEGER_BYTES:
            bounds = _bounds(spec, known)
            if bounds is not None:
                stated = any(fact.input == spec.name for fact in problem.stated)
                free = not stated and _is_free(spec)
                rising = not stated and isinstance(spec.domain, Offsets) and len(spec.shape) == 1
                values[spec.name] = [*bounds, _INTEGER_BYTES[spec.dtype], free, rising]
    listed = [
        {name: workload.axes[name] for name in axes}
        for workload in problem.workloads
        if all(name in workload.axes for name in axes)
    ]
    return {"axes": axes, "tensors": tensors, "values": values, "listed": listed}


def _is_free(spec: TensorSpec) -> bool:
    """Whether every integer within the bounds may stand anywhere in an input."""
    match spec.domain:
        case Index(sentinels=sentinels, unique=unique, lengths=""):
            return not unique and set(sentinels) == set(range(min((0, *sentinels)), 0))
        case IntegerRange() | Lengths():
            return True
        case _:
            return False


def _bounds(spec: TensorSpec, known: Mapping[str, list[Any]]) -> list[list[Any]] | None:
    match spec.domain:
        case Index(axis=axis, sentinels=sentinels, lengths=""):
            size = _polish(axis, known)
            if size is None or any(one >= 0 for one in sentinels):
                return None
            return [[min((0, *sentinels))], [*size, 1, "-"]]
        case Offsets(axis=axis):
            size = _polish(axis, known)
            return None if size is None else [[0], size]
        case Lengths(axis=axis, low=low):
            size = _polish(axis, known)
            return None if size is None else [[low], size]
        case IntegerRange(low=low, high=high):
            return [[low], [high]]
        case _:
            return None


def _polish(text: str, known: Mapping[str, list[Any]]) -> list[Any] | None:
    """Return an expression of axes in reverse Polish notation; None for what has no such form."""
    try:
        return _tokens(ast.parse(text.strip(), mode="eval").body, known)
    except (SyntaxError, ValueError):
        return None


def _tokens(node: ast.expr, known: Mapping[str, list[Any]]) -> list[Any]:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return [number]
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            signs: dict[type[ast.operator], str] = {
                ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//",
            }  # fmt: skip
            if type(op) in signs:
                below = _tokens(right, known)
                if signs[type(op)] != "//" or (isinstance(below[0], int) and len(below) == 1):
                    return [*_tokens(left, known), *below, signs[type(op)]]
    raise ValueError(ast.unparse(node))
