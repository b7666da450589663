"""Runs scenarios in this very process: for tests and for trusted callables only.

Nothing is bounded or hidden here: a hang hangs, a crash crashes. Untrusted candidates go
through `cuassay.sandbox.host.client.WorkerPool`, which has the same `run`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar
from cuassay.model.scenario import Allocate, Call, Poison, Refill, Scenario, Step
from cuassay.model.steps import StreamCall
from cuassay.model.trace import (
    Exited,
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRecord,
    Termination,
)
from cuassay.sandbox.guest import guards, items
from cuassay.sandbox.guest.interface import Around, Given
from cuassay.sandbox.guest.interpreter import Interpreter

MakeInputs = Callable[[Case], Mapping[str, torch.Tensor | Scalar]]
MakeAnswers = Callable[[Case], Sequence[torch.Tensor]]


class LocalRun:
    """One execution of a scenario with the tensors that its Read steps sent."""

    def __init__(self, result: ScenarioResult, tensors: Sequence[torch.Tensor]) -> None:
        self._result, self._tensors = result, tensors

    @property
    def result(self) -> ScenarioResult:
        """Records of the steps and how they ended."""
        return self._result

    def tensor(self, item: ResultItem) -> torch.Tensor:
        """Return the tensor that was sent with `item`; KeyError where none was."""
        if not 0 <= item.buffer < len(self._tensors):
            raise KeyError(f"no bytes were sent for '{item.name or item.kind}'")
        return self._tensors[item.buffer]


class LocalRunner:
    """`run` of WorkerPool on a plain callable, in-process."""

    def __init__(
        self,
        call: Callable[..., object],
        problem: Problem,
        *,
        device: str = "cpu",
        convention: Convention = Convention.RETURNS,
    ) -> None:
        self._call, self._problem = call, problem
        self._device, self._convention = device, convention

    def run(
        self, scenario: Scenario, inputs: MakeInputs, answers: MakeAnswers | None = None
    ) -> LocalRun:
        """Execute the steps; SystemExit of the callable ends the run as Exited."""
        started = time.perf_counter()
        with guards.in_process(scenario.mode, self._device) as around:
            records, tensors, end = self._steps(scenario, inputs, answers, around=around)
        result = ScenarioResult(
            records=tuple(records), termination=end, duration_s=time.perf_counter() - started
        )
        return LocalRun(result, tensors)

    def _steps(
        self,
        scenario: Scenario,
        inputs: MakeInputs,
        answers: MakeAnswers | None,
        *,
        around: Around,
    ) -> tuple[list[StepRecord], list[torch.Tensor], Termination]:
        interpreter = Interpreter(
            self._call,
            self._problem,
            device=self._device,
            convention=self._convention,
            around=around,
        )
        records: list[StepRecord] = []
        tensors: list[torch.Tensor] = []
        slots: dict[str, int] = {}
        end: Termination = Finished()
        for index, step in enumerate(scenario.steps):
            given = given_for(step, scenario, slots, inputs=inputs, answers=answers)
            try:
                done = interpreter.execute(step, index, cases=scenario.cases, given=given)
            except SystemExit as error:
                end = Exited(index=index, exit_code=_exit_code(error))
                break
            records.append(_renumbered(done.record, len(tensors)))
            tensors += [items.snapshot(tensor) for tensor in done.tensors]
        return records, tensors, end


def given_for(
    step: Step,
    scenario: Scenario,
    slots: dict[str, int],
    *,
    inputs: MakeInputs,
    answers: MakeAnswers | None,
) -> Given:
    """Return what a step needs from the judge; `slots` tracks which case each slot holds."""
    if isinstance(step, Allocate | Refill | StreamCall) and step.case is not None:
        slots[step.slot] = step.case
        return Given(inputs=inputs(scenario.cases[step.case]))
    wants = isinstance(step, Call) and step.poison in (Poison.NEGATED, Poison.RIGHT)
    if isinstance(step, Call) and wants and answers is not None and step.slot in slots:
        return Given(answers=tuple(answers(scenario.cases[slots[step.slot]])))
    return Given()


def _renumbered(record: StepRecord, base: int) -> StepRecord:
    if not isinstance(record, StepDone):
        return record
    moved = (replace(i, buffer=i.buffer + base) if i.buffer >= 0 else i for i in record.items)
    return replace(record, items=tuple(moved))


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
