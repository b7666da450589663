"""Two candidates' launches in the algebra: are they the same expressions in real numbers?

Both are called once on the same case in workers of their own; the recordings go to a third worker
into which nothing of either is loaded (`build.machine_equal`).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from cuassay.build.machine_equal import prepare
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.judge.machine import HostNursery
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.machine import EqualityEvidence
from cuassay.model.problem import Problem, Reference, TensorSpec, VarAxis, Workload
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Scenario
from cuassay.model.trace import StepDone, StepRaised
from cuassay.worker.client import WorkerPool

_LAUNCH_LIMIT_S, _LIMIT_S = 120.0, 900.0
_BUILDER = "cuassay.build.machine_equal:load"
_NAMES = ("first", "second", "request")


def compare(
    first: torch.Tensor, second: torch.Tensor, *, digest: str, host: HostNursery
) -> EqualityEvidence:
    """Return how much of two recordings (uint8, files' bytes) is the same expression.

    `digest` keeps the compiled kernels of one pair apart from those of another. Raises
    CannotJudgeError where the process ends without an answer.
    """
    prepare()  # here, for a worker cannot write the runtime's folder
    asked = json.dumps({"limit_s": _LAUNCH_LIMIT_S}).encode()
    request = torch.frombuffer(bytearray(asked), dtype=torch.uint8)
    values = dict(zip(_NAMES, (first, second, request), strict=True))
    sizes = {name[0]: value.numel() for name, value in values.items()}
    scenario = Scenario(
        label="two recordings in the algebra",
        cases=(Case(label="recordings", axes=sizes, seed=0),),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="r", poison=Poison.NONE),
            ReadResult(result="r"),
        ),
        timeout_s=_LIMIT_S,
    )
    nobody = Candidate(
        name="ptx-machine",
        sources=(),
        entry_file=f"ptx-machine-{digest}",
        entry_function="compare",
        language=Language.PYTHON,
    )
    pool = WorkerPool(
        nobody, _PROBLEM, device="cpu", nursery=host.get(), builder=_BUILDER, spares=0
    )
    try:
        run = pool.run(scenario, lambda case: dict(values))
        record = run.result.records[-1] if run.result.records else None
        if not isinstance(record, StepDone) or not record.items or record.index != 2:
            raised = next((one for one in run.result.records if isinstance(one, StepRaised)), None)
            why = f"{raised.exception}: {raised.message}" if raised else run.result.termination
            raise CannotJudgeError(f"the PTX machine gave no answer: {why}"[:400])
        return _answer(bytes(run.tensor(record.items[0]).cpu().numpy()))
    finally:
        pool.close()


def _answer(data: bytes) -> EqualityEvidence:
    try:
        found: EqualityEvidence = serial.loads(EqualityEvidence, data.decode(errors="replace"))
    except (UsageError, ValueError, TypeError, RecursionError) as error:
        raise CannotJudgeError(f"the PTX machine gave no valid answer: {error}"[:300]) from None
    return found


_PROBLEM = Problem(
    name="two recordings",
    axes=tuple(VarAxis(name=name[0]) for name in _NAMES),
    inputs=tuple(
        TensorSpec(name=name, shape=(name[0],), dtype=DType.UINT8, domain=Real()) for name in _NAMES
    ),
    outputs=(),
    reference=Reference(path=Path()),
    workloads=(Workload(id="none", axes={name[0]: 1 for name in _NAMES}),),
    origin="cuassay",
)
