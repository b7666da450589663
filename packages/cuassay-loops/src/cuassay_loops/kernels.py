"""The candidate as a callable of the loop, in a process of its own, and how its end is told.

The judge's side owns weights, gradients and the verdict; each call sends the inputs to the
candidate's worker and takes its outputs back as bytes, as every check does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.checks.endings.findings import (
    exception_text,
    first_raised,
    inconclusive_reason,
    termination_finding,
)
from cuassay.closing import Closing
from cuassay.errors import BuildError, CannotJudgeError
from cuassay.model.axes import resolve, shape_of
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import ConstAxis, ExprAxis, Problem, Scalar, TensorSpec
from cuassay.model.scenario import Allocate, Call, ReadResult, Release, Scenario
from cuassay.model.trace import BuildFailed, StepDone, ToolMissing, done_steps
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.ran import Ran

Value: TypeAlias = torch.Tensor | Scalar
Kernel = Callable[[Sequence[Value]], tuple[torch.Tensor, ...]]
_STEPS = (
    Allocate(slot="x", case=0),
    Call(slot="x", result="y"),
    ReadResult(result="y"),
    Release(name="y"),
    Release(name="x"),
)


class KernelFault(Exception):
    """The candidate ended a call by itself: raised, crashed, hung, or broke the contract."""


class NoVerdict(Exception):
    """A call from which nothing follows: out of memory, a tool that is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What the ReadResult steps of a scenario held, in order, and what the candidate raised."""

    outputs: list[tuple[torch.Tensor, ...]]
    raised: str = ""


class IsolatedKernel(Closing):
    """Calls a candidate in its worker. `calls` counts them."""

    def __init__(
        self,
        candidate: Candidate,
        problem: Problem,
        *,
        device: Device,
        nursery: Nursery | None = None,
    ) -> None:
        self.problem = problem
        self._pool = WorkerPool(candidate, problem, device=device, nursery=nursery)
        self.calls = 0

    def __call__(self, values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        """Return the outputs of one call, shapes and dtypes as declared.

        Raises KernelFault for whatever the candidate does instead, NoVerdict where no verdict
        follows, BuildError or CannotJudgeError where it cannot be built.
        """
        self.calls += 1
        sizes = sizes_of(self.problem, values)
        scenario = Scenario(
            label=f"call {self.calls} of the loop",
            cases=(Case(label="state of the loop", axes=sizes),),
            steps=_STEPS,
        )
        inputs = {
            spec.name: value.detach() if isinstance(value, torch.Tensor) else value
            for spec, value in zip(self.problem.inputs, values, strict=True)
        }
        run = self._pool.run(scenario, lambda case: inputs)
        end = run.result.termination
        if isinstance(end, BuildFailed):
            raise BuildError(end.what, end.log)
        if isinstance(end, ToolMissing):
            raise CannotJudgeError(end.what)
        undecided = inconclusive_reason(run)
        if undecided:
            raise NoVerdict(undecided)
        found = termination_finding(scenario, run, problem=self.problem)
        if found is not None:
            raise KernelFault(found.message)
        ((_, record),) = done_steps(scenario, run.result, ReadResult)
        return self._tensors(run, record, sizes)

    def reads(
        self, scenario: Scenario, inputs: Callable[[Case], Mapping[str, torch.Tensor | Scalar]]
    ) -> Reads:
        """Run a scenario; return what its reads held, and the first exception that it met.

        Raises KernelFault for a crash or a broken contract, NoVerdict where nothing follows.
        """
        self.calls += 1
        run = self._pool.run(scenario, inputs)
        undecided = inconclusive_reason(run)
        if undecided:
            raise NoVerdict(undecided)
        raised = first_raised(run)
        if raised is None:
            found = termination_finding(scenario, run, problem=self.problem)
            if found is not None:
                raise KernelFault(found.message)
        sizes = scenario.cases[0].axes
        outputs = [
            self._tensors(run, record, sizes)
            for record in run.result.records
            if isinstance(record, StepDone) and isinstance(scenario.steps[record.index], ReadResult)
        ]
        return Reads(outputs=outputs, raised=exception_text(raised) if raised else "")

    def _tensors(
        self, run: Ran, record: StepDone, sizes: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        if len(record.items) != len(self.problem.outputs):
            raise KernelFault(
                f"it returned {len(record.items)} values, expected {len(self.problem.outputs)}"
            )
        tensors = []
        for spec, item in zip(self.problem.outputs, record.items, strict=True):
            if item.kind != "tensor" or item.buffer < 0:
                raise KernelFault(f"output '{spec.name}' is no tensor but {item.type_name}")
            tensors.append(run.tensor(item))
        return contracted(self.problem, sizes, tensors)

    def close(self) -> None:
        """End its processes."""
        self._pool.close()


def local_kernel(call: Callable[..., object], problem: Problem) -> Kernel:
    """Return a kernel that calls a *trusted* callable in this very process: no isolation."""

    def kernel(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            returned = call(*values)
        tensors = returned if isinstance(returned, tuple | list) else (returned,)
        return contracted(problem, sizes_of(problem, values), tensors)

    return kernel


def contracted(
    problem: Problem, sizes: Mapping[str, int], tensors: Sequence[object]
) -> tuple[torch.Tensor, ...]:
    """Return the outputs if their count, shapes and dtypes are declared. Raises KernelFault."""
    if len(tensors) != len(problem.outputs):
        raise KernelFault(f"it returned {len(tensors)} values, expected {len(problem.outputs)}")
    found = []
    for spec, tensor in zip(problem.outputs, tensors, strict=True):
        shape = shape_of(spec.shape, sizes)
        dtype = getattr(torch, spec.dtype.value)
        if not isinstance(tensor, torch.Tensor):
            raise KernelFault(f"output '{spec.name}' is no tensor but {type(tensor).__name__}")
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise KernelFault(
                f"output '{spec.name}' is {tensor.dtype} {tuple(tensor.shape)}, expected "
                f"{dtype} {shape}"
            )
        found.append(tensor)
    return tuple(found)


def sizes_of(problem: Problem, values: Sequence[Value]) -> dict[str, int]:
    """Return the size of every axis, solved from the shapes of the inputs.

    Plain axes are read off; then expressions that hold one unknown axis are solved by trying:
    `kv_heads*group` with kv_heads known, say. Raises CannotJudgeError where one stays unknown.
    """
    known = {axis.name: axis.value for axis in problem.axes if isinstance(axis, ConstAxis)}
    names = {axis.name for axis in problem.axes if not isinstance(axis, ExprAxis)}
    pairs = [
        (text, size)
        for spec, value in zip(problem.inputs, values, strict=True)
        if isinstance(spec, TensorSpec) and isinstance(value, torch.Tensor)
        for text, size in zip(spec.shape, value.shape, strict=True)
    ]
    known |= {text: size for text, size in pairs if text in names}
    for text, size in pairs:
        missing = [name for name in names - set(known) if name in text]
        if len(missing) == 1:
            known[missing[0]] = _solved(text, size, missing[0], known)
    if names - set(known):
        raise CannotJudgeError(f"axis '{min(names - set(known))}' of '{problem.name}' is unknown")
    return resolve(problem.axes, {k: v for k, v in known.items() if k in names})


def _solved(text: str, size: int, name: str, known: Mapping[str, int]) -> int:
    for guess in range(size + 1):
        if shape_of((text,), {**known, name: guess}) == (size,):
            return guess
    raise CannotJudgeError(f"no size of axis '{name}' makes '{text}' equal to {size}")
