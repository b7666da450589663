"""A problem as one JSON document: what `cuassay problem show --json` prints."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from typing import Any

from cuassay.formats.domain_rules import domain_words
from cuassay.formats.gpumode import task as gpumode
from cuassay.formats.kernelbench import pair as kernelbench
from cuassay.formats.kernelbench.adapter import BUILT
from cuassay.formats.native.structured import FLAT
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.policy import policy_of
from cuassay.model.problem import (
    STATE_SOURCE,
    Axis,
    ConstAxis,
    ExprAxis,
    InputSpec,
    Problem,
    Reference,
    ScalarSpec,
)

# What the author of a file wrote, where `run` is the adapter's around it.
_AUTHORS = {kernelbench.ORIGIN: "Model", gpumode.ORIGIN: "ref_kernel"}


def _function_text(reference: Reference, name: str = "") -> str:
    """Return the source of the reference's function, or of another function or class of its file.

    The whole file where it is not found.
    """
    text = reference.source or reference.path.read_text(encoding="utf-8")
    name = name or reference.function.rpartition(".")[2].removesuffix(FLAT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
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


def _template(problem: Problem) -> list[str]:
    """Return the lines of a kernel file to start from, as the problem's format wants one."""
    outputs = [
        f"# {spec.name}: {spec.dtype.value}[{', '.join(spec.shape)}]" for spec in problem.outputs
    ]
    answer = [*outputs, f"return {', '.join(spec.name for spec in problem.outputs)}"]
    if problem.origin == gpumode.ORIGIN:
        body = ["# data is what generate_input returns", *answer]
        return ["import torch", "", "def custom_kernel(data):", *(f"    {line}" for line in body)]
    if problem.origin == kernelbench.ORIGIN:
        ours = {*problem.state, STATE_SOURCE, *(f"{BUILT}{axis}" for axis in problem.built)}
        given = ", ".join(spec.name for spec in problem.inputs if spec.name not in ours)
        return [
            "import torch",
            "",
            "class ModelNew(torch.nn.Module):",
            "    def __init__(self, *init):  # what get_init_inputs returns",
            "        super().__init__()",
            "",
            f"    def forward(self, {given}):",
            *(f"        {line}" for line in answer),
        ]
    return [
        "import torch",
        "",
        f"def run({_signature(problem)}):",
        *(f"    {line}" for line in answer),
    ]


def problem_document(
    problem: Problem, truth: str, truth_reason: str, *, reduced: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the document of a problem and of the truth it will be judged by.

    `reduced` names the axes that the reference was seen to reduce. Its keys are
    name, description, origin, path, digest, reference (its text is what the author
    wrote, by the name `author` where that is not `function`), signature
    (the parameters of a kernel), template (lines of one to start from), held (what of a call does
    not vary), axes, inputs, outputs, domains, workloads,
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
            "author": _AUTHORS.get(problem.origin, ""),
            "text": _function_text(reference, _AUTHORS.get(problem.origin, "")),
        },
        "signature": _signature(problem),
        "template": _template(problem),
        "held": list(problem.held),
        "axes": [_axis(axis) for axis in problem.axes],
        "inputs": [_spec(spec) for spec in problem.inputs],
        "outputs": [_spec(spec) for spec in problem.outputs],
        "domains": {
            spec.name: {
                **serial.to_json(spec.domain),
                "words": domain_words(spec.domain),
                "source": spec.domain_source,
            }
            for spec in problem.inputs
        },
        "workloads": [
            {
                "id": workload.id,
                "axes": resolve(problem.axes, workload.axes),
                "sources": serial.to_json(workload.sources),
                "tolerance": serial.to_json(workload.tolerance),
            }
            for workload in problem.workloads
        ],
        "tolerance": serial.to_json(problem.workloads[0].tolerance) if problem.workloads else None,
        "accumulation": problem.accumulation.value,
        "precision": policy_of(problem).value,
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
        "sizes": list(axis.sizes),
        "declared": axis.declared,
        "source": axis.bounds_source or ("declared" if axis.declared else "default"),
    }


def _spec(spec: InputSpec) -> dict[str, Any]:
    common = {"name": spec.name, "dtype": spec.dtype.value, "description": spec.description}
    if isinstance(spec, ScalarSpec):
        return {**common, "kind": "scalar", "default": serial.to_json(spec.default)}
    return {**common, "kind": "tensor", "shape": list(spec.shape)}
