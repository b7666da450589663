"""A problem as one JSON document: what `cuassay problem show --json` prints."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Any

from cuassay.formats.native.structured import FLAT
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.problem import (
    Axis,
    ConstAxis,
    ExprAxis,
    InputSpec,
    Problem,
    Reference,
    ScalarSpec,
    TensorSpec,
    Workload,
)


def _function_text(reference: Reference) -> str:
    """Return the source of the reference's function; the whole file where it is not found."""
    text = reference.source or reference.path.read_text(encoding="utf-8")
    name = reference.function.rpartition(".")[2].removesuffix(FLAT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return textwrap.dedent(ast.get_source_segment(text, node, padded=True) or "")
    return text


def _signature(problem: Problem) -> str:
    """Return the parameters that a kernel has, as source text."""
    if not problem.entry:
        return ", ".join(spec.name for spec in problem.inputs)
    made = ast.parse(_function_text(problem.reference)).body[0]
    if not isinstance(made, ast.FunctionDef):
        return ", ".join(spec.name for spec in problem.inputs)
    arguments = made.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        one.annotation = None
    return ast.unparse(arguments)


def problem_document(
    problem: Problem, truth: str, truth_reason: str, *, reduced: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the document of a problem and of the truth it will be judged by.

    `reduced` names the axes that the reference was seen to reduce. Its keys are
    name, description, origin, path, digest, reference, signature (the parameters of a kernel), held
    (what of a call does not vary), axes, inputs, outputs, domains, workloads,
    tolerance, accumulation, precision (the policy), index_inputs, reduction_axes,
    reduction_axes_seen, growth_target, constraints, truth (float64 or float32) and truth_reason.
    Every value is plain JSON.
    """
    reference = problem.reference
    return {
        "name": problem.name,
        "description": problem.description,
        "origin": problem.origin,
        "path": str(problem.path) if problem.path is not None else None,
        "digest": problem.digest,
        "reference": {
            "path": str(reference.path),
            "function": reference.function,
            "generator": reference.generator,
            "text": _function_text(reference),
        },
        "signature": _signature(problem),
        "held": list(problem.held),
        "axes": [_axis(axis) for axis in problem.axes],
        "inputs": [_spec(spec) for spec in problem.inputs],
        "outputs": [_spec(spec) for spec in problem.outputs],
        "domains": {spec.name: _domain(spec) for spec in problem.inputs},
        "workloads": [_workload(workload, problem) for workload in problem.workloads],
        "tolerance": serial.to_json(problem.workloads[0].tolerance) if problem.workloads else None,
        "accumulation": problem.accumulation.value,
        "precision": problem.policy.value,
        "index_inputs": serial.to_json(problem.index_inputs),
        "reduction_axes": list(problem.reduction_axes),
        "reduction_axes_seen": list(reduced),
        "growth_target": dict(problem.growth_target),
        "constraints": list(problem.constraints),
        "truth": truth,
        "truth_reason": truth_reason,
    }


def _axis(axis: Axis) -> dict[str, Any]:
    common = {"name": axis.name, "description": axis.description}
    match axis:
        case ConstAxis(value=value):
            return {**common, "kind": "const", "value": value}
        case ExprAxis(expression=expression):
            return {**common, "kind": "expr", "expression": expression}
    return {
        **common,
        "kind": "var",
        "minimum": axis.minimum,
        "maximum": axis.maximum,
        "multiple_of": axis.multiple_of,
        "declared": axis.declared,
        "source": axis.bounds_source or ("declared" if axis.declared else "default"),
    }


def _spec(spec: InputSpec) -> dict[str, Any]:
    common = {"name": spec.name, "dtype": spec.dtype.value, "description": spec.description}
    if isinstance(spec, ScalarSpec):
        return {**common, "kind": "scalar", "default": serial.to_json(spec.default)}
    return {**common, "kind": "tensor", "shape": list(spec.shape)}


def _domain(spec: TensorSpec | ScalarSpec) -> dict[str, Any]:
    described: dict[str, Any] = serial.to_json(spec.domain)
    return {**described, "source": spec.domain_source}


def _workload(workload: Workload, problem: Problem) -> dict[str, Any]:
    return {
        "id": workload.id,
        "axes": resolve(problem.axes, workload.axes),
        "sources": serial.to_json(workload.sources),
        "tolerance": serial.to_json(workload.tolerance),
    }
