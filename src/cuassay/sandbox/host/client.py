"""Runs scenarios on an untrusted candidate, in workers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuassay.build.cuda.toolkit import toolchain
from cuassay.closing import Closing
from cuassay.home import cache_dir
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.problem import Problem
from cuassay.model.reached import Reached
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import ScenarioResult, Termination
from cuassay.sandbox import trees
from cuassay.sandbox.host.builds import Builds, NotBuiltError
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import WorkerHandle
from cuassay.sandbox.host.nursery import Nursery, NurseryError
from cuassay.sandbox.host.own_lines import with_own_lines
from cuassay.sandbox.host.parts import START, Parts
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.host.workers import Workers
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeAnswers, MakeInputs
from cuassay.sandbox.ran import Ran

DEFAULT_LIMITS = Limits()
DEFAULT_BUILDER = "cuassay.build:load"


class WorkerPool(Closing):
    """Workers of one candidate. Closing it ends every process and frees all memory.

    `keep` is the folder of build caches (default: under cuassay's home), in which the
    candidate's digest names its own; workers can write to no other. A `nursery` shared by
    several pools saves starting Python and torch again; it stays open on close. `builder`
    names the function, importable in a worker, that turns a candidate into a callable. A `lazy`
    pool starts no worker before the first scenario. `spares` are the workers kept ready.
    """

    def __init__(
        self,
        candidate: Candidate,
        problem: Problem,
        *,
        device: Device,
        limits: Limits = DEFAULT_LIMITS,
        keep: Path | None = None,
        nursery: Nursery | None = None,
        builder: str = DEFAULT_BUILDER,
        lazy: bool = False,
        spares: int | None = None,
    ) -> None:
        self._candidate, self._problem = candidate, problem
        self._device, self._limits = device, limits
        self.digest = candidate_digest(candidate, toolchain(device))
        self.folder = (keep or cache_dir()) / self.digest
        self.folder.mkdir(parents=True, exist_ok=True)
        self._segments = Segments(device)
        self.builds = Builds(candidate, problem, builder=builder, folder=self.folder, limits=limits)
        self._workers = Workers(
            candidate,
            self.builds,
            device=device,
            limits=limits,
            cache=self.folder,
            nursery=nursery,
            spares=spares,
            lazy=lazy,
        )
        self.reached = Reached()  # code that ran in calls that somebody judged, who adds it
        self._closed = False
        if not lazy:  # its build overlaps with what the judge does before the first scenario
            self.begin()

    @property
    def started(self) -> int:
        """How many workers were started so far."""
        return self._workers.started

    @property
    def is_starting(self) -> bool:
        """Whether its first worker has not said anything yet."""
        return not self.builds.done and self._workers.is_starting

    @property
    def nursery(self) -> Nursery:
        """Where its workers come from."""
        return self._workers.nursery

    @property
    def sandbox(self) -> Mapping[str, str]:
        """What holds the candidate on this machine: measure -> "yes", or why not."""
        refused = self._segments.refused
        shared = "yes" if self._segments.uses_ipc else f"no: {refused}" if refused else "host"
        return {**self.nursery.sandbox, **self.builds.walls, "device memory shared": shared}

    @property
    def holds_memory(self) -> bool:
        """Whether a worker is there, or memory that was shared with one."""
        return self._workers.are_there or self._segments.holds_memory

    def begin(self) -> None:
        """Start a worker, which begins to build, where there is none."""
        self._workers.begin()

    def expect(self, mode: Mode) -> None:
        """Fork a worker of a mode that is asked for soon, once one worker has built."""
        if self.builds.done:
            self._workers.expect(mode)

    async def wait_built(self) -> bool:
        """Wait until a first worker has built the candidate; return whether one has."""
        if not self.builds.done:
            with contextlib.suppress(NotBuiltError):  # the first scenario will say so
                await self._worker(fresh=False)
        return self.builds.done

    async def make_ready(self, scenario: Scenario) -> None:
        """Wait for the worker that a scenario will run in, which has built then."""
        with contextlib.suppress(NotBuiltError, NurseryError):  # the scenario will say so
            await self._worker(
                fresh=scenario.fresh, mode=scenario.mode, concurrent=scenario.is_concurrent
            )

    def run(
        self,
        scenario: Scenario,
        inputs: MakeInputs,
        answers: MakeAnswers | None = None,
        *,
        fresh: bool = False,
    ) -> Ran:
        """Execute a scenario and wait for its end; see `execute`."""
        return run_now(self.execute(scenario, inputs, answers, fresh=fresh))

    async def execute(
        self,
        scenario: Scenario,
        inputs: MakeInputs,
        answers: MakeAnswers | None = None,
        *,
        fresh: bool = False,
        parts: Parts | None = None,
    ) -> Ran:
        """Execute a scenario; whatever the candidate does ends up in the result.

        `inputs` makes the inputs of a case, `answers` its right outputs, for the steps that
        poison with them. What these two raise passes through. `parts` are told where the time
        goes. Raises NurseryError where no worker can be had at all.
        """
        started = time.perf_counter()
        parts = parts or Parts()
        try:
            with parts.part(START):
                worker = await self._worker(
                    fresh=fresh or scenario.fresh,
                    mode=scenario.mode,
                    concurrent=scenario.is_concurrent,
                )
        except NotBuiltError as error:
            return Ran(self._result((), error.termination, started, text=self.builds.log), ())
        if scenario.mode is Mode.PLAIN:
            self._workers.prepare_spares()
        if self._workers.is_special(worker) and self._device.on_gpu:
            self.begin()  # the usual one, for what comes next
        worker.scenarios += 1
        execution = Execution(
            worker,
            self._segments,
            scenario,
            limits=self._limits,
            problem=self._problem,
            device=self._device,
            parts=parts,
        )
        try:
            end = await execution.run(inputs, answers)
        except BaseException:  # the judge's own: the worker's slots are in an unknown state
            await self._workers.discard(worker)
            raise
        finally:
            execution.close()
        if not execution.healthy:
            await self._workers.discard(worker)
        text = execution.text if not execution.healthy else worker.take_output()
        run = self._result(execution.records, end, started, text=text)
        return Ran(run, execution.tensors, execution.reached)

    async def _worker(
        self, *, fresh: bool, mode: Mode = Mode.PLAIN, concurrent: bool = False
    ) -> WorkerHandle:
        """Return a healthy worker that has built the candidate. Raises NotBuiltError."""
        if self.builds.failed is not None:
            raise NotBuiltError(self.builds.failed)
        kind = self._workers.kind_of(mode, concurrent=concurrent)
        worker = await self._workers.take(kind, fresh=fresh)
        if worker.built:
            return worker
        await self.nursery.wait_ready()
        try:
            await self.builds.wait(worker)
        except NotBuiltError as error:
            if error.zygote_ended:
                self._workers.replace_nursery()
            await self._workers.discard(worker)
            raise
        if self.builds.imports_compiler:  # seconds of every process that is forked without it
            self.nursery.load_compiler()
        return worker

    def _result(
        self, records: Any, end: Termination, started: float, *, text: str
    ) -> ScenarioResult:
        return ScenarioResult(
            records=with_own_lines(records, self._candidate.sources),
            termination=end,
            output_text=text,
            build_s=self.builds.seconds,
            build_cached=self.builds.cached,
            duration_s=time.perf_counter() - started,
        )

    def kill(self) -> None:
        """Begin to end every worker; `close` waits for it."""
        self._workers.kill()

    def let_go(self) -> None:
        """End every worker and free what was shared with them; the next scenario begins anew."""
        self.kill()
        run_now(self._workers.bury())
        self._segments.close()

    def close(self) -> None:
        """End every worker and free what was shared with them."""
        if self._closed:
            return
        self._closed = True
        self.kill()
        if self._workers.are_dying:
            run_now(self._workers.bury())
        self._workers.close_nursery()
        self._segments.close()
        limits = self._limits
        if trees.excess(
            self.folder,
            files=limits.cache_files,
            depth=limits.folder_levels,
            size=limits.cache_bytes,
        ):
            trees.remove(self.folder)
