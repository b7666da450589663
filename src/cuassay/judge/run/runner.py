"""Runs scenarios of one candidate in its workers and adds up the time they take."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import torch

from cuassay.build.python import speaks_of_a_gpu
from cuassay.checks.endings.findings import claims_no_system, first_raised, may_lack_memory
from cuassay.checks.memory.sanitizer_report import find_sanitizer
from cuassay.contract.memory import GIB
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.home import apart_dir
from cuassay.inputs.geometry import tensor_bytes, tensor_inputs
from cuassay.judge.run.busy import keep_busy
from cuassay.judge.run.machine import HostNursery
from cuassay.judge.run.memory import shortage
from cuassay.judge.run.patience import Patience
from cuassay.judge.run.side_by_side import SideBySide
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Call, Poison, Scenario
from cuassay.model.steps import Mode, Outline, RecordLaunches
from cuassay.model.trace import Claim, Garbled, ScenarioResult, StepDone, TimedOut
from cuassay.model.verdict import Lane, Profile
from cuassay.model.walls import WALLS
from cuassay.sandbox.host import sanitizer
from cuassay.sandbox.host.apart import Apart, NotLoadedError, can_take, ended_cleanly
from cuassay.sandbox.host.client import DEFAULT_LIMITS, WorkerPool
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.parts import Parts
from cuassay.sandbox.ran import Ran

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial
    from cuassay.sandbox.local import MakeAnswers

_RECORDED = 16
_RECORDING_BUILDER = "cuassay.build:load_to_record"
_BUILDS_LONG = ("torch.compile", "cpp_extension", "load_inline")
_APART_GIB = 4.0  # of inputs, which travel through the host's memory at some GiB a second
_OTHER_WAYS = 3  # workers that were built before the first one met what cannot be executed


def uncovered(run: Run) -> bool:
    """Whether a call ended at a kernel that the PTX machine does not cover."""
    raised = first_raised(run)
    return raised is not None and raised.claim is Claim.UNCOVERED


def _recorded_nothing(run: Run) -> bool:
    """Whether the worker says that no launch was kept: a reason to ask again, no more."""
    records = (record for record in run.result.records if isinstance(record, StepDone))
    return any(("launches", "0") in record.facts for record in records)


class Runner:
    """A candidate's worker pool with the trial's inputs and answers behind it.

    While `fresh` is set, the next scenario runs in a process that ran no other.
    """

    def __init__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: str,
        nursery: Nursery | None,
        lazy: bool = False,
        host: HostNursery | None = None,
        spares: int | None = None,
        lane: Lane = Lane.CANDIDATE,
    ) -> None:
        self._lane = lane
        self._trial, self._candidate, self._device = trial, candidate, device
        self._pool = WorkerPool(
            candidate, trial.problem, device=device, nursery=nursery, lazy=lazy, spares=spares
        )
        self._apart = self._new_apart()
        self._one_apart = threading.Lock()
        self._bare_walls: Mapping[str, str] = {}
        self._started_bare = 0
        self._leaves_traces = (
            lane is not Lane.CANDIDATE
            or device != "cpu"
            or bool(self._not_apart())
            or any(sign in source.text for sign in _BUILDS_LONG for source in candidate.sources)
        )
        self.fresh = False
        self._at_work = False
        self._spent_s = 0.0
        self._tools = SideBySide(self._beside)
        self._given_host = host
        self._host = host or HostNursery(nursery)
        self._machine: WorkerPool | None = None  # of a trial on a GPU: workers without one
        self._recorded: OrderedDict[str, Run] = OrderedDict()
        self._patience = Patience()

    def _new_apart(self) -> Apart:
        return Apart(
            self._candidate,
            self._trial.problem,
            device=self._device,
            nursery=lambda: self._pool.nursery,
            limits=DEFAULT_LIMITS,
            keep=apart_dir() / self._pool.digest,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tools.close()
        self._apart.close()
        self._pool.close()
        if self._machine is not None:
            self._machine.close()
        if self._given_host is None:
            self._host.close()

    def work_for(self, trial: JudgeTrial) -> None:
        """Take inputs and answers from `trial`, of the same problem, from now on."""
        self._trial = trial

    def kill(self) -> None:
        """Begin to end its workers, which closing it waits for; no scenario comes any more."""
        self._pool.kill()
        if self._machine is not None:
            self._machine.kill()

    @property
    def kind(self) -> str:
        """What the candidate's worker says that it built."""
        return self._pool.kind

    @property
    def nursery(self) -> Nursery:
        """Where its workers come from: a runner of the same sources may share it."""
        return self._pool.nursery

    @property
    def because(self) -> str:
        """Why its numbers are the interpreter's, as the worker says: untrusted text."""
        return self._pool.because

    @property
    def started(self) -> int:
        """How many processes it started for the trial's device, those apart included."""
        return self._pool.started + self._apart.started + self._started_bare

    @property
    def built(self) -> bool:
        """Whether one of its workers has built the candidate."""
        return self._pool.built

    def let_go(self) -> bool:
        """End its idle workers and free what they shared; return whether there was anything.

        For where the memory is needed elsewhere. What a scenario runs in meanwhile stays.
        """
        if self._at_work or not self._pool.holds_memory:
            return False
        self._pool.let_go()
        return True

    def make_ready(self, scenario: Scenario) -> None:
        """Wait for the process that a scenario will run in, where that is a worker on a GPU."""
        records = any(isinstance(step, RecordLaunches | Outline) for step in scenario.steps)
        apart = scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS
        if self._device.startswith("cuda") and not records and not apart:
            self._pool.make_ready(replace(scenario, fresh=self.fresh or scenario.fresh))

    def begin(self) -> None:
        """Start its first process, which begins to build, where none is there."""
        self._pool.begin()

    def wait_built(self) -> bool:
        """Wait until its first process has built the candidate; return whether one has."""
        return self._pool.wait_built()

    @property
    def is_starting(self) -> bool:
        """Whether its first worker has not said anything yet."""
        return self._pool.is_starting

    @property
    def tunes(self) -> bool:
        """Whether the candidate's worker says that it has autotuners."""
        return self._pool.tunes

    @property
    def walls(self) -> Mapping[str, str]:
        """Which walls stood around the candidate's process: name -> "yes", or why not."""
        found = {**self._bare_walls, **self._apart.walls, **self._pool.sandbox}
        return {wall.name: found[wall.name] for wall in WALLS if wall.name in found}

    @property
    def build_s(self) -> float:
        """Seconds the candidate took to build, or 0 where nothing was built."""
        return self._pool.build_s

    @property
    def candidate_s(self) -> float:
        """Seconds spent running scenarios, without the build."""
        return max(0.0, self._spent_s - self._pool.build_s)

    def __call__(self, scenario: Scenario) -> Run:
        """Run one scenario. Raises CannotJudgeError for a candidate that hung too often."""
        with self._trial.timeline.span(self._lane, scenario.label) as parts:
            self._at_work = True
            try:
                return self._ran(scenario, parts)
            finally:
                self._at_work = False

    def _ran(self, scenario: Scenario, parts: Parts) -> Run:
        needs_answers = any(
            isinstance(step, Call) and step.poison in (Poison.NEGATED, Poison.RIGHT)
            for step in scenario.steps
        )
        started = time.perf_counter()
        truth_s = self._trial.truth_s
        answers = self._trial.answers if needs_answers else None
        fresh = self.fresh or scenario.fresh
        if scenario.mode is Mode.APART or scenario.mode in sanitizer.TOOLS:
            found = self._tools.result(scenario)
            if claims_no_system(found):  # beside others there may be little left of something
                found = self._tools.result(scenario)
            self._spent_s += time.perf_counter() - started
            return found
        if any(isinstance(step, RecordLaunches | Outline) for step in scenario.steps):
            return self._recording(scenario, parts)
        scenario = self._patience.of(scenario)
        with keep_busy(scenario.busy):
            run = self._once(scenario, answers, fresh=fresh, parts=parts)
            longer = self._patience.longer(scenario, run)
            if longer is not None:
                run = self._in_pool(longer, answers, fresh=True, parts=parts)
        self._patience.saw(run, longer=longer is not None, limit_s=scenario.timeout_s)
        # A busy device may have room a moment later. Where it has room, a kernel that now and
        # then finds none is not asked again until it does.
        lacks = may_lack_memory(scenario, run)
        if lacks and shortage(self._device, scenario, self._trial.problem):
            run = self._in_pool(scenario, answers, fresh=True, parts=parts)
        for _ in range(_OTHER_WAYS):  # a new process takes the way that is left
            if not uncovered(run) or not self._candidate.names_triton:
                break
            run = self._in_pool(scenario, answers, fresh=True, parts=parts)
        self.fresh = False
        # Answers are made inside the call: truth's time is counted as truth's.
        self._spent_s += time.perf_counter() - started - (self._trial.truth_s - truth_s)
        return run

    def _in_pool(
        self, scenario: Scenario, answers: MakeAnswers | None, *, fresh: bool, parts: Parts
    ) -> Ran:
        return self._pool.run(scenario, self._trial.inputs, answers, fresh=fresh, parts=parts)

    def _once(
        self, scenario: Scenario, answers: MakeAnswers | None, *, fresh: bool, parts: Parts
    ) -> Ran:
        """Run a scenario where nothing of cuassay is, if it can be run there, else in a worker.

        What raises or ends there is asked of a worker too, which can say more of it. A candidate
        that fails in the one alone has failed: what counts is what it does unwatched.
        """
        if self._leaves_traces or not can_take(scenario):
            return self._in_pool(scenario, answers, fresh=fresh, parts=parts)
        if not self._pool.built:
            run = self._in_pool(scenario, answers, fresh=fresh, parts=parts)
            if not ended_cleanly(run) or not self._pool.built:
                return run
        try:
            with self._one_apart:
                unwatched = self._apart.run(scenario, self._trial.inputs, fresh=fresh, parts=parts)
        except NotLoadedError:  # APART001 says so, unless the reference cannot be loaded either
            self._leaves_traces = True
            return self._in_pool(scenario, answers, fresh=fresh, parts=parts)
        if ended_cleanly(unwatched) or isinstance(unwatched.result.termination, TimedOut):
            return unwatched
        run = self._in_pool(scenario, answers, fresh=True, parts=parts)
        return unwatched if ended_cleanly(run) else run

    def _not_apart(self) -> str:
        """Return why the candidate cannot do without cuassay in its process, if so."""
        text = "\n".join(source.text for source in self._candidate.sources)
        if self._candidate.language is not Language.PYTHON:
            return "a kernel that cuassay's own code launches cannot do without"
        if self._device != "cpu":
            return "" if self._device.startswith("cuda") else "no such device"
        if speaks_of_a_gpu(text):
            return "without a GPU cuassay executes what it launches"
        return ""

    def _beside(self, scenario: Scenario) -> Callable[[], Ran]:
        """Prepare what a thread may run: a process apart, or a call below compute-sanitizer.

        Inputs are made here: a problem's generator sets random states of the whole process.
        """
        if scenario.mode is not Mode.APART:
            return self._sanitized(scenario)
        text = "\n".join(source.text for source in self._candidate.sources)
        why = self._not_apart()
        if why:
            raise NothingToCheckError(why)
        if self._trial.profile is Profile.QUICK and any(sign in text for sign in _BUILDS_LONG):
            raise CannotJudgeError(
                "it builds anew in each process without cuassay, which takes too long for quick; "
                "use --profile standard"
            )
        specs = tensor_inputs(self._trial.problem)
        inputs_gib = max(tensor_bytes(specs, case.axes) for case in scenario.cases) / GIB
        if self._trial.profile is Profile.QUICK and inputs_gib > _APART_GIB:
            raise CannotJudgeError(
                f"a process without cuassay takes its inputs from files, and {inputs_gib:.1f} GiB "
                "take too long for quick; use --profile standard"
            )
        made = {serial.dumps(case): self._on_host(case) for case in scenario.cases}
        timeline = self._trial.timeline

        def run() -> Ran:
            # One thread at a time hears the process that they are forked from.
            with (
                self._one_apart,
                timeline.span(Lane.APART, scenario.label),
                self._new_apart() as apart,
            ):
                try:
                    return apart.run(scenario, lambda case: made[serial.dumps(case)], fresh=True)
                except NotLoadedError as error:
                    end = Garbled(index=0, what=str(error)[:4096])
                    return Ran(ScenarioResult(records=(), termination=end), ())
                finally:
                    self._bare_walls = apart.walls
                    self._started_bare += apart.started

        return run

    def _recording(self, scenario: Scenario, parts: Parts) -> Run:
        """Run a scenario that records launches, once for all checks that ask for it.

        Where the GPU executes them, a process that ran others may launch nothing: a candidate
        may keep answers, or replay a CUDA graph. Then a new process is asked.
        """
        outline = any(isinstance(s, RecordLaunches) and s.outline for s in scenario.steps)
        key = serial.dumps(scenario.cases) + ("outline" if outline else "")
        if key not in self._recorded:
            started = time.perf_counter()
            if any(isinstance(step, RecordLaunches) and step.on_gpu for step in scenario.steps):
                run: Run = self._in_pool(scenario, None, fresh=False, parts=parts)
                if _recorded_nothing(run):
                    run = self._in_pool(scenario, None, fresh=True, parts=parts)
            else:
                run = self._without_gpu().run(scenario, self._on_host, fresh=False, parts=parts)
            self._recorded[key] = run
            self._spent_s += time.perf_counter() - started
            while len(self._recorded) > _RECORDED:
                self._recorded.popitem(last=False)
        return self._recorded[key]

    def _without_gpu(self) -> WorkerPool:
        if self._candidate.language is Language.CUDA_KERNEL and self._device == "cpu":
            return self._pool  # it executes every launch in the machine as it is
        if self._machine is None:
            self._machine = WorkerPool(
                self._candidate,
                self._trial.problem,
                device="cpu",
                nursery=self._host.get(),
                lazy=True,
                spares=0,
                builder=_RECORDING_BUILDER,
            )
        return self._machine

    def _on_host(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        values = self._trial.inputs(case)
        return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in values.items()}

    def ahead(self, scenarios: Sequence[Scenario]) -> None:
        """Begin with what is going to be asked for, beside what is asked for before it."""
        self._tools.ahead(scenarios)

    def expect(self, mode: Mode) -> None:
        """Begin to start a process of a mode that is asked for soon: a while on a GPU."""
        if self._device.startswith("cuda"):
            self._pool.expect(mode)

    def _sanitized(self, scenario: Scenario) -> Callable[[], Ran]:
        """Prepare a scenario of one call below a tool of compute-sanitizer."""
        return partial(
            sanitizer.run_below,
            scenario,
            candidate=self._candidate,
            recipe=self._pool.recipe,
            inputs=self._trial.inputs(scenario.cases[0]),
            device=self._device,
            binary=find_sanitizer(),
        )
