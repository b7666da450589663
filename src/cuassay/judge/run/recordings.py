"""Launches of a candidate's calls, recorded once for all checks, and executed by the machine."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from cuassay.checks.machine.faults import recording_of
from cuassay.closing import Closing
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.unwatched import host_inputs
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import CPU
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Outline, RecordLaunches
from cuassay.model.trace import StepDone, done_steps
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.parts import Parts

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

_KEPT = 16
_BUILDER = "cuassay.build:load_to_record"


class Recordings(Closing):
    """Runs scenarios that record launches, each once; `machine` executes what they recorded.

    On a CPU the workers of `pool` record raw kernels; for others, and in a trial on a GPU, workers
    without one come from `host`. With `asks_again` a process that launched nothing on the GPU is
    asked once more. `one` is held while a scenario runs: the processes run one at a time.
    """

    def __init__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        pool: WorkerPool,
        on_gpu: bool,
        machine: Replayer | None,
        host: HostNursery,
        one: asyncio.Lock,
        asks_again: bool,
    ) -> None:
        self._trial, self._candidate, self._machine = trial, candidate, machine
        self._pool, self._host, self._one = pool, host, one
        self._asks_again = asks_again
        self._in_pool = candidate.language is Language.CUDA_KERNEL and not on_gpu
        self._without_gpu: WorkerPool | None = None
        self._executing: list[asyncio.Task[None]] = []
        self._recorded: OrderedDict[str, Run] = OrderedDict()

    async def run(self, scenario: Scenario, parts: Parts) -> Run:
        """Record the launches of a scenario, and wait until the machine has executed them."""
        run = await self._record(scenario, parts)
        await self._execute(scenario, run)
        return run

    async def begin(self, scenario: Scenario) -> None:
        """Record the launches of a scenario, and let the machine execute them beside what comes."""
        run = await self._record(scenario, Parts())
        self._executing.append(asyncio.create_task(self._execute(scenario, run)))

    def take_begun(self) -> list[asyncio.Task[None]]:
        """Return what the machine was begun with, for somebody to wait for."""
        begun, self._executing = self._executing, []
        return begun

    def kill(self) -> None:
        """Begin to end its workers, which closing it waits for."""
        if self._without_gpu is not None:
            self._without_gpu.kill()

    def close(self) -> None:
        """End its workers."""
        if self._without_gpu is not None:
            self._without_gpu.close()

    async def _record(self, scenario: Scenario, parts: Parts) -> Run:
        """Run a scenario that records launches, once for all checks that ask for it.

        Where the GPU executes them, a process that ran others may launch nothing: a candidate
        may keep answers, or replay a CUDA graph. Then a new process is asked.
        """
        outline = any(isinstance(s, RecordLaunches) and s.outline for s in scenario.steps)
        key = serial.dumps(scenario.cases) + ("outline" if outline else "")
        async with self._one:
            if key in self._recorded:
                return self._recorded[key]
            if any(isinstance(s, RecordLaunches) and s.on_gpu for s in scenario.steps):
                inputs = self._trial.truths.inputs
                run = await self._pool.execute(scenario, inputs, parts=parts)
                # That torch's own kernels are all that the reference launches is no surprise.
                if self._asks_again and _recorded_nothing(run):
                    run = await self._pool.execute(scenario, inputs, fresh=True, parts=parts)
            else:
                on_host = partial(host_inputs, self._trial)
                if self._in_pool:
                    recorder = self._pool  # it executes every launch in the machine as it is
                else:
                    if self._without_gpu is None:
                        self._without_gpu = WorkerPool(
                            self._candidate,
                            self._trial.problem,
                            device=CPU,
                            nursery=self._host.get(),
                            lazy=True,
                            spares=0,
                            builder=_BUILDER,
                        )
                    recorder = self._without_gpu
                run = await recorder.execute(scenario, on_host, parts=parts)
            self._recorded[key] = run
            while len(self._recorded) > _KEPT:
                self._recorded.popitem(last=False)
            return run

    async def _execute(self, scenario: Scenario, run: Run) -> None:
        """Let the machine execute what a run recorded: who judges it need not wait then."""
        if self._machine is None:
            return
        recording = recording_of(scenario, run)
        outlines = [record.items for _, record in done_steps(scenario, run.result, Outline)]
        if recording is not None:
            await self._machine.prepare(recording, scenario)
        elif outlines and outlines[0]:
            await self._machine.prepare_sample(run.tensor(outlines[0][0]), scenario)


def _recorded_nothing(run: Run) -> bool:
    """Whether the worker says that no launch was kept: a reason to ask again, no more."""
    records = (record for record in run.result.records if isinstance(record, StepDone))
    return any(("launches", "0") in record.facts for record in records)
