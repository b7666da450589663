"""The inputs of a case, whichever way it says that they are made."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

import torch

from cuassay.inputs import benchmark
from cuassay.inputs.materialise import materialise
from cuassay.inputs.scalars import sizes_given
from cuassay.inputs.transforms import transformed
from cuassay.model.case import GENERATED, Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem, SafetensorsSource, Scalar, Workload

if TYPE_CHECKING:
    from cuassay.formats.execute import LoadedReference

Value: TypeAlias = torch.Tensor | Scalar


def case_inputs(
    problem: Problem, case: Case, *, device: Device, reference: LoadedReference
) -> dict[str, Value]:
    """Return fresh inputs of a case by name, in the order of the problem's inputs.

    A benchmark case holds what the benchmark's own rules draw at the case's sizes; its scalars
    and fills of kind `generated` change single inputs of that. Raises ReferenceError_ where a
    generator fails.
    """
    if not case.benchmark:
        generator = reference.generator if case.generator else None
        return materialise(problem, case, device=device, generator=generator)
    drawn = benchmark.draw(
        problem, workload_of(problem, case), seed=case.seed, device=device, reference=reference
    )
    for spec in problem.inputs:
        fill, own = case.fills.get(spec.name), drawn[spec.name]
        if spec.name in case.scalars:
            drawn[spec.name] = case.scalars[spec.name]
        elif fill is not None and fill.kind == GENERATED and isinstance(own, torch.Tensor):
            drawn[spec.name] = transformed(spec, fill, case.axes, lambda _, own=own: own)  # type: ignore[arg-type, misc]
    return drawn | sizes_given(problem, case.axes)


def workload_of(problem: Problem, case: Case) -> Workload:
    """Return the workload that a benchmark case names, at the case's own sizes.

    Stored tensors have the sizes that they have: a workload with any keeps its own.
    """
    workload = next(w for w in problem.workloads if w.id == case.workload)
    stored = any(isinstance(source, SafetensorsSource) for source in workload.sources.values())
    if stored or case.workload is None:
        return workload
    bound = {axis.name for axis in problem.var_axes()} | set(workload.axes)
    axes = {name: size for name, size in case.axes.items() if name in bound}
    return dataclasses.replace(workload, axes=axes)
