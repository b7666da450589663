"""Runs scenarios in this very process: for tests and for trusted callables only.

Nothing is bounded or hidden here: a hang hangs, a crash crashes. Untrusted candidates go
through `cuassay.sandbox.host.client.WorkerPool`, which has the same `run`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem, Scalar
from cuassay.model.scenario import Scenario, Step
from cuassay.model.trace import Exited, Finished, ScenarioResult, StepRecord, Termination
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.interface import Given
from cuassay.sandbox.guest.interpreter import Interpreter
from cuassay.sandbox.guest.memory import guards
from cuassay.sandbox.ran import Ran, renumbered

MakeInputs = Callable[[Case], Mapping[str, torch.Tensor | Scalar]]
MakeAnswers = Callable[[Case], Sequence[torch.Tensor]]


class LocalRunner:
    """`run` of WorkerPool on a plain callable, in-process."""

    def __init__(
        self,
        call: Callable[..., object],
        problem: Problem,
        *,
        device: Device = CPU,
        convention: Convention = Convention.RETURNS,
    ) -> None:
        self._call, self._problem = call, problem
        self._device, self._convention = device, convention

    def run(
        self, scenario: Scenario, inputs: MakeInputs, answers: MakeAnswers | None = None
    ) -> Ran:
        """Execute the steps; SystemExit of the callable ends the run as Exited."""
        started = time.perf_counter()
        with guards.in_process(scenario.mode, self._device) as around:
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
                    if error.code is None:
                        exit_code = 0
                    else:
                        exit_code = error.code if isinstance(error.code, int) else 1
                    end = Exited(index=index, exit_code=exit_code)
                    break
                records.append(renumbered(done.record, len(tensors)))
                tensors += [items.tensor_copy(tensor) for tensor in done.tensors]
        result = ScenarioResult(
            records=tuple(records), termination=end, duration_s=time.perf_counter() - started
        )
        return Ran(result, tensors)


def given_for(
    step: Step,
    scenario: Scenario,
    slots: dict[str, int],
    *,
    inputs: MakeInputs,
    answers: MakeAnswers | None,
) -> Given:
    """Return what a step needs from the judge; `slots` tracks which case each slot holds."""
    if step.fills is not None:
        slot, case = step.fills
        slots[slot] = case
        return Given(inputs=inputs(scenario.cases[case]))
    if step.wants_answers and answers is not None and step.wants_answers in slots:
        return Given(answers=tuple(answers(scenario.cases[slots[step.wants_answers]])))
    return Given()
