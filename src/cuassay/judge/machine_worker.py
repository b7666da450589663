"""A worker of the judge's own that holds the PTX machine: recordings in, one answer out.

Nothing of a candidate is loaded into it. Its answer is bytes, read back field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Reference, TensorSpec, VarAxis, Workload
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Scenario
from cuassay.model.trace import ScenarioResult, StepDone, StepRaised
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery

Answer = TypeVar("Answer")


def byte_inputs(name: str, inputs: Mapping[str, str]) -> Problem:
    """Return the problem whose inputs are rows of bytes; `inputs` names the axis of each."""
    return Problem(
        name=name,
        axes=tuple(VarAxis(name=axis) for axis in inputs.values()),
        inputs=tuple(
            TensorSpec(name=each, shape=(axis,), dtype=DType.UINT8, domain=Real())
            for each, axis in inputs.items()
        ),
        outputs=(),
        reference=Reference(path=Path()),
        workloads=(Workload(id="none", axes=dict.fromkeys(inputs.values(), 1)),),
        origin="cuassay",
    )


def machine_pool(
    problem: Problem, *, digest: str, function: str, builder: str, nursery: Nursery
) -> WorkerPool:
    """Return workers that hold the machine; `digest` keeps their compiled kernels apart."""
    nobody = Candidate(
        name="ptx-machine",
        sources=(),
        entry_file=f"ptx-machine-{digest}",
        entry_function=function,
        language=Language.PYTHON,
    )
    return WorkerPool(nobody, problem, device="cpu", nursery=nursery, builder=builder, spares=0)


def asked(
    pool: WorkerPool,
    values: Mapping[str, torch.Tensor],
    kind: type[Answer],
    *,
    axes: Mapping[str, int],
    label: str,
    timeout_s: float,
) -> Answer:
    """Return the machine's answer to uint8 tensors. Raises CannotJudgeError where it has none."""
    scenario = Scenario(
        label=label,
        cases=(Case(label=label, axes=dict(axes), seed=0),),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r", poison=Poison.NONE),
            ReadResult(result="r"),
        ),
        timeout_s=timeout_s,
    )
    run = pool.run(scenario, lambda case: dict(values))
    record = run.result.records[-1] if run.result.records else None
    if not isinstance(record, StepDone) or not record.items or record.index != 2:
        raise CannotJudgeError(f"the PTX machine gave no answer: {_why(run.result)}")
    return _read(bytes(run.tensor(record.items[0]).cpu().numpy()), kind)


def _read(data: bytes, kind: type[Answer]) -> Answer:
    try:
        found: Answer = serial.loads(kind, data.decode(errors="replace"))
    except (UsageError, ValueError, TypeError, RecursionError) as error:
        raise CannotJudgeError(f"the PTX machine gave no valid answer: {error}"[:300]) from None
    return found


def _why(result: ScenarioResult) -> str:
    for record in result.records:
        if isinstance(record, StepRaised):
            return f"{record.exception}: {record.message}"[:300]
    return f"{result.termination}"[:300]
