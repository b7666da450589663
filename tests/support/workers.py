"""Candidates, problems and scenarios for the tests of the worker."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from cuassay.model.candidate import Candidate, Convention, SourceFile
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Reference, Scalar, ScalarSpec, TensorSpec, VarAxis
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario, Step
from cuassay.model.trace import ResultItem, ScenarioResult, StepDone
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.ran import Ran

ROOT = Path(__file__).resolve().parent.parent.parent
BUILDER = "tests.support.builder:load"
LIMITS = Limits(build_s=120.0, watch_s=0.05, processes=32)


def tensor_spec(name: str, dtype: str, *shape: str) -> TensorSpec:
    """Return a tensor of any values."""
    return TensorSpec(name=name, dtype=DType(dtype), shape=shape, domain=Real())


def problem(
    inputs: Sequence[TensorSpec | ScalarSpec] = (tensor_spec("x", "float32", "n"),),
    outputs: Sequence[TensorSpec] = (tensor_spec("y", "float32", "n"),),
) -> Problem:
    """Return a problem over one axis n."""
    return Problem(
        name="worker-test",
        axes=(VarAxis(name="n", minimum=0),),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        reference=Reference(path=Path("reference.py")),
        workloads=(),
        origin="test",
    )


def candidate(source: str, convention: Convention = Convention.RETURNS) -> Candidate:
    """Return a candidate of one Python file; torch, os and ctypes are imported for it."""
    text = "import ctypes, os, sys, time, torch\n" + textwrap.dedent(source)
    return Candidate(
        name="candidate",
        sources=(SourceFile(path="kernel.py", text=text),),
        entry_file="kernel.py",
        entry_function="run",
        convention=convention,
    )


ONE_CALL: tuple[Step, ...] = (
    Allocate(slot="s", case=0),
    Call(slot="s", result="r"),
    ReadResult(result="r"),
)


def scenario(
    steps: Sequence[Step] = ONE_CALL, *, sizes: Sequence[int] = (100,), timeout_s: float = 120.0
) -> Scenario:
    """Return a scenario over cases that differ in n and in their seed."""
    cases = tuple(Case(label=f"n={n}", axes={"n": n}, seed=seed) for seed, n in enumerate(sizes))
    return Scenario(label="test", cases=cases, steps=tuple(steps), timeout_s=timeout_s)


def ramp(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
    """Return x = seed + [0, 1, ..., n - 1] in float32."""
    return {"x": torch.arange(case.axes["n"], dtype=torch.float32) + case.seed}


def items(result: ScenarioResult, index: int) -> tuple[ResultItem, ...]:
    """Return the items of a step that ended normally."""
    record = result.records[index]
    assert isinstance(record, StepDone), record
    return record.items


def read(run: Ran, index: int, position: int = 0) -> torch.Tensor:
    """Return a tensor that step `index` sent."""
    return run.tensor(items(run.result, index)[position])


@contextmanager
def nursery(device: Device = CPU, *, hide: Sequence[Path] = ()) -> Iterator[Nursery]:
    """Open a nursery whose workers can import the builder of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        opened = Nursery(device, hide=hide)
    with opened:
        yield opened


def pool(
    source: str,
    keep: Path,
    opened: Nursery,
    *,
    over: Problem | None = None,
    convention: Convention = Convention.RETURNS,
    limits: Limits = LIMITS,
    spares: int | None = None,
    lazy: bool = False,
) -> WorkerPool:
    """Return a pool of workers of one candidate."""
    return WorkerPool(
        candidate(source, convention),
        over or problem(),
        device=opened.device,
        limits=limits,
        keep=keep,
        nursery=opened,
        builder=BUILDER,
        spares=spares,
        lazy=lazy,
    )
