"""The one executor of a candidate's scenarios: each goes to the process that its meaning needs.

A worker calls the candidate; a bare process holds nothing of cuassay; a worker without a GPU
records launches; compute-sanitizer starts a process of its own. Running is awaited: while one of
these processes is at work, the judge thinks about what others returned. It is here and not in
`sandbox/host` since it asks the trial for inputs, and decides by what is left of memory and
patience what is asked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import first_raised, may_lack_memory
from cuassay.checks.memory.sanitizer_report import find_sanitizer
from cuassay.closing import Closing
from cuassay.judge.run.budget import TimeBudget
from cuassay.judge.run.busy import keep_busy
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.memory import shortage
from cuassay.judge.run.patience import Patience
from cuassay.judge.run.recordings import Recordings
from cuassay.judge.run.unwatched import Unwatched, claims_no_resources, host_inputs
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import Claim, TimedOut
from cuassay.model.verdict import Lane
from cuassay.model.walls import WALLS
from cuassay.sandbox.host import sanitizer
from cuassay.sandbox.host.client import DEFAULT_LIMITS, WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.parts import Parts
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.ran import Ran, ended_cleanly

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

_OTHER_WAYS = 3  # workers that were built before the first one met what cannot be executed
# Runs in processes of their own, at a time: one tool of compute-sanitizer keeps a core and little
# of the GPU busy for up to a minute.
_AT_ONCE = 4


def uncovered(run: Run) -> bool:
    """Whether a call ended at a kernel that the PTX machine does not cover."""
    raised = first_raised(run)
    return raised is not None and raised.claim is Claim.UNCOVERED


class Executor(Closing):
    """Runs scenarios of one candidate, one after another, and adds up the time they take.

    While `fresh` is set, the next scenario of a worker runs in a process that ran no other. Closing
    it ends all of its processes.
    """

    def __init__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: Device,
        nursery: Nursery | None,
        lazy: bool = False,
        host: HostNursery | None = None,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
        machine: Replayer | None = None,
    ) -> None:
        """`machine` executes the launches that scenarios record, where there is one."""
        self._lane = lane
        self._trial, self._candidate, self._device = trial, candidate, device
        problem = trial.problem
        if lane is Lane.REFERENCE:  # it is a function of all ranks, and no rank calls it
            problem = replace(problem, ranks=None)
        connects = problem.ranks is not None and device.on_gpu  # NCCL's ranks meet by sockets
        self.pool = WorkerPool(
            candidate,
            problem,
            device=device,
            limits=replace(DEFAULT_LIMITS, connects=connects),
            nursery=nursery,
            lazy=lazy,
            spares=spares,
        )
        of_candidate = lane is Lane.CANDIDATE
        self._unwatched = Unwatched(
            trial, candidate, device=device, pool=self.pool, plain_calls=of_candidate
        )
        self.fresh = False
        self._at_work = False
        self._spent_s = 0.0
        self._begun: list[tuple[Scenario, asyncio.Task[Ran]]] = []
        without_gpu = host or HostNursery(nursery)
        self._own_host = None if host else without_gpu
        self._one = asyncio.Lock()  # its processes run one scenario at a time
        self.recordings = Recordings(
            trial,
            candidate,
            pool=self.pool,
            on_gpu=device.on_gpu,
            machine=machine,
            host=without_gpu,
            one=self._one,
            asks_again=of_candidate,
        )
        self.patience = Patience()
        self.budget = TimeBudget()  # of the trial, which opens this

    def close(self) -> None:
        """End its processes; runs that were begun and nobody asked for have ended before."""
        self._unwatched.close()
        self.pool.close()
        self.recordings.close()
        if self._own_host is not None:
            self._own_host.close()

    def kill(self) -> None:
        """Begin to end its workers, which closing it waits for; no scenario comes any more."""
        self.pool.kill()
        self.recordings.kill()

    @property
    def started(self) -> int:
        """How many processes it started for the trial's device, those apart included."""
        return self.pool.started + self._unwatched.started

    def let_go(self) -> bool:
        """End its idle workers and free what they shared; return whether there was anything.

        For where the memory is needed elsewhere. What a scenario runs in meanwhile stays.
        """
        if self._at_work or not self.pool.holds_memory:
            return False
        self.pool.let_go()
        return True

    async def make_ready(self, scenario: Scenario) -> None:
        """Wait for the process that a scenario will run in, where that is a worker on a GPU."""
        apart = scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS
        if self._device.on_gpu and not scenario.is_recorded and not apart:
            await self.pool.make_ready(replace(scenario, fresh=self.fresh or scenario.fresh))

    @property
    def walls(self) -> Mapping[str, str]:
        """Which walls stood around the candidate's process: name -> "yes", or why not."""
        found = {**self._unwatched.walls, **self.pool.sandbox}
        return {wall.name: found[wall.name] for wall in WALLS if wall.name in found}

    @property
    def candidate_s(self) -> float:
        """Seconds spent running scenarios, without the build."""
        return max(0.0, self._spent_s - self.pool.builds.seconds)

    def ahead(self, scenarios: Sequence[Scenario]) -> None:
        """Begin with scenarios of processes of their own, in this order, beside what comes now.

        Each is asked for later, once. Only where an event loop runs.
        """
        begun = [scenario for scenario, _ in self._begun]
        places = asyncio.Semaphore(_AT_ONCE)

        async def in_turn(scenario: Scenario) -> Ran:
            async with places, self.budget.limited():
                return await self._beside(scenario)

        for scenario in scenarios:
            if scenario not in begun:
                self._begun.append((scenario, asyncio.create_task(in_turn(scenario))))

    @property
    def is_quiet(self) -> bool:
        """Whether no run that was begun is still at work."""
        return all(task.done() for _, task in self._begun)

    async def settle(self) -> None:
        """Let runs that were begun and that nobody asked for come to their end.

        A process apart is ended: what a candidate does there is asked only where all else is right.
        """
        for scenario, task in self._begun:
            if scenario.mode is Mode.APART:
                task.cancel()
        begun = [*(task for _, task in self._begun), *self.recordings.take_begun()]
        self._begun = []
        await asyncio.gather(*begun, return_exceptions=True)

    def expect(self, mode: Mode) -> None:
        """Begin to start a process of a mode that is asked for soon: a while on a GPU."""
        if self._device.on_gpu:
            self.pool.expect(mode)

    def __call__(self, scenario: Scenario) -> Run:
        """Run one scenario and wait for its end; see `run`."""
        return run_now(self.run(scenario))

    async def run(self, scenario: Scenario) -> Run:
        """Run one scenario. Raises CannotJudgeError for a candidate that hung too often."""
        truths = self._trial.truths
        async with self._clocked(scenario) as parts:
            if scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS:
                return await self._awaited(scenario)
            if scenario.is_recorded:
                return await self.recordings.run(scenario, parts)
            async with self._one:
                scenario = self.patience.of(scenario)
                in_worker = partial(
                    self.pool.execute, inputs=truths.inputs, answers=truths.answers, parts=parts
                )
                run, fresh = None, self.fresh or scenario.fresh
                with keep_busy(scenario.busy):
                    apart = await self._unwatched.apart_for(scenario)
                    if apart is not None:
                        with self._unwatched.else_a_worker():
                            run = await apart.execute(
                                scenario, truths.inputs, fresh=fresh, parts=parts
                            )
                    if run is None:
                        run = await in_worker(scenario, fresh=fresh)
                    elif not ended_cleanly(run) and not isinstance(
                        run.result.termination, TimedOut
                    ):
                        # What raises or ends unwatched is asked of a worker too, which can say
                        # more of it. A candidate that fails unwatched alone has failed.
                        watched = await in_worker(scenario, fresh=True)
                        run = run if ended_cleanly(watched) else watched
                    longer = self.patience.longer(scenario, run)
                    if longer is not None:
                        run = await in_worker(longer, fresh=True)
                self.patience.saw(run, longer=longer is not None, limit_s=scenario.timeout_s)
                # A busy device may have room a moment later. Where it has room, a kernel that now
                # and then finds none is not asked again until it does.
                lacks = may_lack_memory(scenario, run)
                if lacks and shortage(self._device, scenario, self._trial.problem):
                    run = await in_worker(scenario, fresh=True)
                for _ in range(_OTHER_WAYS):  # a new process takes the way that is left
                    if not uncovered(run) or not self._candidate.names_triton:
                        break
                    run = await in_worker(scenario, fresh=True)
                self.fresh = False
                # What no step reads was compared with nothing.
                if scenario.reads_results and self._lane is Lane.CANDIDATE:
                    self.pool.reached |= run.reached
                return run

    async def exchanged(self, scenario: Scenario) -> Ran | None:
        """Run calls in which parts of the candidate's code come to other values.

        None where the candidate runs in no process apart, which alone can do that.
        """
        async with self._clocked(scenario), self._one:
            apart = await self._unwatched.exchanging(scenario)
            if apart is None:
                return None
            inputs = partial(host_inputs, self._trial)
            return await apart.execute(scenario, inputs, fresh=scenario.fresh)

    async def exchanged_in_worker(self, scenario: Scenario) -> Ran | None:
        """Run calls in which operations of an extension's C++ give other results."""
        async with self._clocked(scenario), self._one:
            truths = self._trial.truths
            return await self.pool.execute(
                scenario, truths.inputs, answers=truths.answers, fresh=scenario.fresh
            )

    @asynccontextmanager
    async def _clocked(self, scenario: Scenario) -> AsyncIterator[Parts]:
        """Count what runs as time of the trial, and its parts as the candidate's or the judge's."""
        started, truth_s = time.perf_counter(), self._trial.truths.seconds
        self._at_work = True
        try:
            # Let what is not the candidate's time pass while the trial's clock stands still.
            limited = self.budget.limit_s is not None and not self.budget.is_spent
            if limited and not self.pool.builds.done:
                with self.budget.held():
                    await self.pool.nursery.wait_ready()
                    if self.pool.builds.compiles:
                        await self.pool.wait_built()
            async with self.budget.limited():
                with self._trial.timeline.span(self._lane, scenario.label) as parts:
                    yield parts
        finally:
            self._at_work = False
            # Answers are made inside the call: truth's time is counted as truth's.
            truth_s = self._trial.truths.seconds - truth_s
            self._spent_s += max(0.0, time.perf_counter() - started - truth_s)

    async def _awaited(self, scenario: Scenario) -> Ran:
        """Wait for a run that was begun, or do it now."""
        for place, (begun, task) in enumerate(self._begun):
            if begun is scenario or begun == scenario:
                del self._begun[place]
                found = await task
                # Beside others little may be left of something. A launch of torch's own kernels
                # was refused so on a GPU, and was not when it had its turn. Any other end counts,
                # though it may not come again.
                if scenario.mode is not Mode.APART or not claims_no_resources(found):
                    return found
                break
        return await self._beside(scenario)

    async def _beside(self, scenario: Scenario) -> Ran:
        """Run a scenario in a process apart, or one call below compute-sanitizer."""
        if scenario.mode is Mode.APART:
            return await self._unwatched.bare(scenario)
        return await asyncio.to_thread(
            sanitizer.run_below,
            scenario,
            candidate=self._candidate,
            recipe=self.pool.builds.recipe,
            inputs=self._trial.truths.inputs(scenario.cases[0]),
            device=self._device,
            binary=find_sanitizer(),
        )
