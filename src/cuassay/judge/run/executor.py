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
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from cuassay.build.python import speaks_of_a_gpu
from cuassay.checks.endings.findings import (
    claims_no_memory,
    claims_no_system,
    first_raised,
    may_lack_memory,
)
from cuassay.checks.machine.faults import recording_of
from cuassay.checks.memory.sanitizer_report import find_sanitizer
from cuassay.closing import Closing
from cuassay.contract.memory import GIB
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.home import apart_dir
from cuassay.inputs.geometry import tensor_bytes, tensor_inputs
from cuassay.judge.run.budget import Budget
from cuassay.judge.run.busy import keep_busy
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.memory import shortage
from cuassay.judge.run.patience import Patience
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Call, Poison, Scenario
from cuassay.model.steps import Mode, Outline, RecordLaunches
from cuassay.model.trace import (
    Claim,
    Garbled,
    ScenarioResult,
    StepDone,
    TimedOut,
    done_steps,
)
from cuassay.model.verdict import Lane, Profile
from cuassay.model.walls import WALLS
from cuassay.sandbox.host import sanitizer
from cuassay.sandbox.host.apart import Apart, NotLoadedError, can_take, ended_cleanly
from cuassay.sandbox.host.client import DEFAULT_LIMITS, WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.parts import Parts
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.no_memory import says_no_memory
from cuassay.sandbox.ran import Ran

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

_RECORDED = 16
_RECORDING_BUILDER = "cuassay.build:load_to_record"
_BUILDS_LONG = ("torch.compile", "cpp_extension", "load_inline")
_APART_GIB = 4.0  # of inputs, which travel through the host's memory at some GiB a second
_OTHER_WAYS = 3  # workers that were built before the first one met what cannot be executed
# Runs in processes of their own, at a time: one tool of compute-sanitizer keeps a core and little
# of the GPU busy for up to a minute.
_AT_ONCE = 4
_LAUNCH_REFUSAL = "too many resources requested for launch"  # cudaErrorLaunchOutOfResources


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
        self._lane, self._machine = lane, machine
        self._trial, self._candidate, self._device = trial, candidate, device
        self.pool = WorkerPool(
            candidate, trial.problem, device=device, nursery=nursery, lazy=lazy, spares=spares
        )
        self._apart = self._new_apart()
        self._bare_walls: Mapping[str, str] = {}
        self._started_bare = 0
        self._leaves_traces = (
            lane is not Lane.CANDIDATE
            or device.on_gpu
            or bool(self._not_apart())
            or any(sign in source.text for sign in _BUILDS_LONG for source in candidate.sources)
        )
        self.fresh = False
        self._at_work = False
        self._spent_s = 0.0
        self._begun: list[tuple[Scenario, asyncio.Task[Ran]]] = []
        self._given_host = host
        self._host = host or HostNursery(nursery)
        self._recorder: WorkerPool | None = None  # of a trial on a GPU: workers without one
        self._one = asyncio.Lock()  # its processes run one scenario at a time
        self._executing: list[asyncio.Task[None]] = []
        self._recorded: OrderedDict[str, Run] = OrderedDict()
        self._patience = Patience()
        self.budget = Budget()  # of the trial, which opens this

    def _new_apart(self) -> Apart:
        return Apart(
            self._candidate,
            self._trial.problem,
            device=self._device,
            nursery=lambda: self.pool.nursery,
            limits=DEFAULT_LIMITS,
            keep=apart_dir() / self.pool.digest,
        )

    def close(self) -> None:
        """End its processes; runs that were begun and nobody asked for have ended before."""
        self._apart.close()
        self.pool.close()
        if self._recorder is not None:
            self._recorder.close()
        if self._given_host is None:
            self._host.close()

    def kill(self) -> None:
        """Begin to end its workers, which closing it waits for; no scenario comes any more."""
        self.pool.kill()
        if self._recorder is not None:
            self._recorder.kill()

    @property
    def started(self) -> int:
        """How many processes it started for the trial's device, those apart included."""
        return self.pool.started + self._apart.started + self._started_bare

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
        records = any(isinstance(step, RecordLaunches | Outline) for step in scenario.steps)
        apart = scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS
        if self._device.on_gpu and not records and not apart:
            await self.pool.make_ready(replace(scenario, fresh=self.fresh or scenario.fresh))

    @property
    def walls(self) -> Mapping[str, str]:
        """Which walls stood around the candidate's process: name -> "yes", or why not."""
        found = {**self._bare_walls, **self._apart.walls, **self.pool.sandbox}
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

    async def begin_to_execute(self, scenario: Scenario) -> None:
        """Record the launches of a scenario, and let the machine execute them beside what comes."""
        run = await self._recording(scenario, Parts())
        self._executing.append(asyncio.create_task(self._execute(scenario, run)))

    async def settle(self) -> None:
        """Let runs that were begun and that nobody asked for come to their end."""
        begun = [*(task for _, task in self._begun), *self._executing]
        self._begun, self._executing = [], []
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
        started, truth_s = time.perf_counter(), self._trial.truths.seconds
        self._at_work = True
        try:
            await self._wait_for_a_compiler()
            async with self.budget.limited():
                with self._trial.timeline.span(self._lane, scenario.label) as parts:
                    if scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS:
                        was_beside = any(begun == scenario for begun, _ in self._begun)
                        found = await self._awaited(scenario)
                        # Beside others little may be left of something. A launch of torch's own
                        # kernels was refused so on a GPU, and was not when it had its turn. Any
                        # other end counts, though it may not come again.
                        crowded = was_beside and scenario.mode is Mode.APART
                        if claims_no_system(found) or (crowded and _claims_no_resources(found)):
                            found = await self._beside(scenario)
                        return found
                    if any(isinstance(step, RecordLaunches | Outline) for step in scenario.steps):
                        run = await self._recording(scenario, parts)
                        await self._execute(scenario, run)
                        return run
                    async with self._one:
                        return await self._worked(scenario, parts)
        finally:
            self._at_work = False
            # Answers are made inside the call: truth's time is counted as truth's.
            truth_s = self._trial.truths.seconds - truth_s
            self._spent_s += max(0.0, time.perf_counter() - started - truth_s)

    async def _wait_for_a_compiler(self) -> None:
        """Let what is not the candidate's time pass while the trial's clock stands still."""
        limited = self.budget.limit_s is not None and not self.budget.is_spent
        if limited and not self.pool.builds.done:
            with self.budget.held():
                await self.pool.nursery.wait_ready()
                if self.pool.builds.compiles:
                    await self.pool.wait_built()

    async def _worked(self, scenario: Scenario, parts: Parts) -> Run:
        """Run a scenario where the candidate is called, and again where that showed nothing."""
        scenario = self._patience.of(scenario)
        answers = self._trial.truths.answers if _needs_answers(scenario) else None

        async def in_worker(wanted: Scenario, *, fresh: bool) -> Ran:
            return await self.pool.execute(
                wanted, self._trial.truths.inputs, answers, fresh=fresh, parts=parts
            )

        with keep_busy(scenario.busy):
            run = await self._unwatched(scenario, parts)
            if run is None:
                run = await in_worker(scenario, fresh=self.fresh or scenario.fresh)
            elif not ended_cleanly(run) and not isinstance(run.result.termination, TimedOut):
                # What raises or ends unwatched is asked of a worker too, which can say more of it.
                # A candidate that fails unwatched alone has failed.
                watched = await in_worker(scenario, fresh=True)
                run = run if ended_cleanly(watched) else watched
            longer = self._patience.longer(scenario, run)
            if longer is not None:
                run = await in_worker(longer, fresh=True)
        self._patience.saw(run, longer=longer is not None, limit_s=scenario.timeout_s)
        # A busy device may have room a moment later. Where it has room, a kernel that now and
        # then finds none is not asked again until it does.
        lacks = may_lack_memory(scenario, run)
        if lacks and shortage(self._device, scenario, self._trial.problem):
            run = await in_worker(scenario, fresh=True)
        for _ in range(_OTHER_WAYS):  # a new process takes the way that is left
            if not uncovered(run) or not self._candidate.names_triton:
                break
            run = await in_worker(scenario, fresh=True)
        self.fresh = False
        return run

    async def _unwatched(self, scenario: Scenario, parts: Parts) -> Ran | None:
        """Run a scenario where nothing of cuassay is, if it can be run there.

        Not before a worker has built the candidate, and never what leaves its traces anyway. What
        calls leave in inputs is read where it lies, so that a later call would change it: a worker
        copies it.
        """
        if self._leaves_traces or self._trial.problem.updated or not can_take(scenario):
            return None
        if not await self.pool.wait_built():
            return None
        fresh = self.fresh or scenario.fresh
        try:
            return await self._apart.execute(
                scenario, self._trial.truths.inputs, fresh=fresh, parts=parts
            )
        except NotLoadedError:  # APART001 says so, unless the reference cannot be loaded either
            self._leaves_traces = True
            return None

    def _not_apart(self) -> str:
        """Return why the candidate cannot do without cuassay in its process, if so."""
        text = "\n".join(source.text for source in self._candidate.sources)
        if self._candidate.language is not Language.PYTHON:
            return "a kernel that cuassay's own code launches cannot do without"
        if self._device.on_gpu:
            return ""
        if speaks_of_a_gpu(text):
            return "without a GPU cuassay executes what it launches"
        return ""

    async def _awaited(self, scenario: Scenario) -> Ran:
        """Wait for a run that was begun, or do it now."""
        for place, (begun, task) in enumerate(self._begun):
            if begun is scenario or begun == scenario:
                del self._begun[place]
                return await task
        return await self._beside(scenario)

    async def _beside(self, scenario: Scenario) -> Ran:
        """Run a scenario in a process apart, or one call below compute-sanitizer."""
        if scenario.mode is Mode.APART:
            return await self._bare(scenario)
        return await asyncio.to_thread(
            sanitizer.run_below,
            scenario,
            candidate=self._candidate,
            recipe=self.pool.builds.recipe,
            inputs=self._trial.truths.inputs(scenario.cases[0]),
            device=self._device,
            binary=find_sanitizer(),
        )

    async def _bare(self, scenario: Scenario) -> Ran:
        """Run a scenario in a process apart, which ends with it."""
        why, profile = self._not_apart(), self._trial.profile
        if why:
            raise NothingToCheckError(why)
        texts = [source.text for source in self._candidate.sources]
        if profile is Profile.QUICK and any(sign in t for sign in _BUILDS_LONG for t in texts):
            raise CannotJudgeError(
                "it builds anew in each process without cuassay, which takes too long for quick; "
                "use --profile standard"
            )
        specs = tensor_inputs(self._trial.problem)
        inputs_gib = max(tensor_bytes(specs, case.axes) for case in scenario.cases) / GIB
        if profile is Profile.QUICK and inputs_gib > _APART_GIB:
            raise CannotJudgeError(
                f"a process without cuassay takes its inputs from files, and {inputs_gib:.1f} GiB "
                "take too long for quick; use --profile standard"
            )
        with (
            self._trial.timeline.span(Lane.APART, scenario.label),
            self._new_apart() as apart,
        ):
            try:
                return await apart.execute(scenario, self._on_host, fresh=True)
            except NotLoadedError as error:
                end = Garbled(index=0, what=str(error)[:4096])
                return Ran(ScenarioResult(records=(), termination=end), ())
            finally:
                self._bare_walls = apart.walls
                self._started_bare += apart.started

    async def _recording(self, scenario: Scenario, parts: Parts) -> Run:
        """Run a scenario that records launches, once for all checks that ask for it.

        Where the GPU executes them, a process that ran others may launch nothing: a candidate
        may keep answers, or replay a CUDA graph. Then a new process is asked.
        """
        outline = any(isinstance(s, RecordLaunches) and s.outline for s in scenario.steps)
        key = serial.dumps(scenario.cases) + ("outline" if outline else "")
        async with self._one:
            if key in self._recorded:
                return self._recorded[key]
            on_gpu = any(isinstance(s, RecordLaunches) and s.on_gpu for s in scenario.steps)
            pool, inputs = (
                (self.pool, self._trial.truths.inputs)
                if on_gpu
                else (self._without_gpu(), self._on_host)
            )
            run = await pool.execute(scenario, inputs, parts=parts)
            # That torch's own kernels are all that the reference launches is no surprise.
            if on_gpu and self._lane is Lane.CANDIDATE and _recorded_nothing(run):
                run = await pool.execute(scenario, inputs, fresh=True, parts=parts)
            self._recorded[key] = run
            while len(self._recorded) > _RECORDED:
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

    def _without_gpu(self) -> WorkerPool:
        if self._candidate.language is Language.CUDA_KERNEL and not self._device.on_gpu:
            return self.pool  # it executes every launch in the machine as it is
        if self._recorder is None:
            self._recorder = WorkerPool(
                self._candidate,
                self._trial.problem,
                device=CPU,
                nursery=self._host.get(),
                lazy=True,
                spares=0,
                builder=_RECORDING_BUILDER,
            )
        return self._recorder

    def _on_host(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        values = self._trial.truths.inputs(case)
        return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in values.items()}


def _needs_answers(scenario: Scenario) -> bool:
    """Whether a call of a scenario finds right or negated answers in freed memory."""
    poisons = (Poison.NEGATED, Poison.RIGHT)
    return any(isinstance(step, Call) and step.poison in poisons for step in scenario.steps)


def _claims_no_resources(run: Run) -> bool:
    """Whether a process apart says that it was refused what processes beside it may hold.

    That is memory, also while the candidate was loaded, the system's part of CUDA, or the
    resources of a launch.
    """
    first, end = first_raised(run), run.result.termination
    loading = isinstance(end, Garbled) and says_no_memory(end.what)
    launch = first is not None and _LAUNCH_REFUSAL in first.message.lower()
    return loading or launch or claims_no_memory(run) or claims_no_system(run)


def _recorded_nothing(run: Run) -> bool:
    """Whether the worker says that no launch was kept: a reason to ask again, no more."""
    records = (record for record in run.result.records if isinstance(record, StepDone))
    return any(("launches", "0") in record.facts for record in records)
