"""Scenarios in processes that hold nothing of cuassay: this side owns memory, order and reading.

The guest (`guest.apart`) loads a function and calls it. Where its inputs lie, what they were,
what they are after a call, and what a result is are all read here: inputs from memory that the
judge made and shares, results from the guest's memory at the place where they lay as the call
ended. On a GPU both are copies that the guest makes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from cuassay.build import tuned
from cuassay.build.sources import write_sources
from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError
from cuassay.model import walls
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.scenario import (
    Allocate,
    Autograd,
    Call,
    HashResult,
    Poison,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.steps import CallOften, Mode
from cuassay.model.trace import ScenarioResult
from cuassay.sandbox.host import kept_kernels
from cuassay.sandbox.host.apart_execution import ApartExecution
from cuassay.sandbox.host.apart_memory import raised_in, read_texts
from cuassay.sandbox.host.handle import GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import ROOT, Nursery, confined
from cuassay.sandbox.host.parts import START, Parts
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeInputs
from cuassay.sandbox.ran import Ran


class NotLoadedError(Exception):
    """The candidate cannot be loaded in a process that holds nothing of cuassay."""


def can_take(scenario: Scenario) -> bool:
    """Whether a process that holds nothing of cuassay can take a scenario of Mode.PLAIN."""
    plain = scenario.mode is Mode.PLAIN and not scenario.busy
    return plain and all(_covered(step) for step in scenario.steps)


def _covered(step: Step) -> bool:
    match step:
        case Allocate() | Refill() | ReadResult() | ReadInputs() | HashResult() | Release():
            return True
        case CallOften():
            return True
        case Call(parameters=True) | Call(autocast=True):
            return False
        case Call(stream="", thread=False, gradients=False, autograd=Autograd.ON, poison=poison):
            return poison not in (Poison.NEGATED, Poison.RIGHT)  # they leave answers in memory
        case _:
            return False


_US = "cuassay"


def _imports_us(candidate: Candidate) -> bool:
    """Whether a source of the candidate imports cuassay, at whatever place."""
    for source in candidate.sources:
        if not source.path.endswith(".py") or _US not in source.text:
            continue
        try:
            nodes = list(ast.walk(ast.parse(source.text)))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in nodes:
            match node:
                case ast.Import(names=names) if any(_is_us(one.name) for one in names):
                    return True
                case ast.ImportFrom(module=str() as module, level=0) if _is_us(module):
                    return True
                case _:
                    pass
    return False


def _is_us(module: str) -> bool:
    return module.partition(".")[0] == _US


class Apart(Closing):
    """The processes of one candidate that hold nothing of cuassay, one at a time.

    `candidate` is a Python function. Closing it ends the process. What Triton compiles there is
    kept in `keep`, by the candidate's contents, if that is given. Where calls are followed,
    Triton's autotuners take what workers noted in `choices`, if that is given: what is asked there
    is not which configuration is fast. What such a process compiled is kept for others like it
    alone, for it can know that it is followed.
    """

    def __init__(
        self,
        candidate: Candidate,
        problem: Problem,
        *,
        device: Device,
        nursery: Callable[[], Nursery],
        limits: Limits,
        keep: Path | None = None,
        choices: Path | None = None,
    ) -> None:
        self._candidate, self._problem = candidate, problem
        self._device, self._nursery, self._limits = device, nursery, limits
        self._keep, self._choices = keep, choices
        self._keep_followed: Path | None = None
        if keep is not None and choices is not None:
            self._keep_followed = keep.with_name(f"{keep.name}-followed")
        self._follows = False  # whether the process that lives does
        self._segments = Segments(device)
        self._segments.use_bytes("")
        self._worker: WorkerHandle | None = None
        self.walls: Mapping[str, str] = {}  # which stood around the last process that was started
        self.started = 0  # processes so far
        self.unloadable = False  # NotLoadedError was raised

    def run(self, scenario: Scenario, inputs: MakeInputs, *, fresh: bool) -> Ran:
        """Run a scenario and wait for its end; see `execute`."""
        return run_now(self.execute(scenario, inputs, fresh=fresh))

    async def execute(
        self, scenario: Scenario, inputs: MakeInputs, *, fresh: bool, parts: Parts | None = None
    ) -> Ran:
        """Run a scenario; whatever the candidate does ends up in the result.

        With `fresh` in a process that ran no other, and that ends with it. One of Mode.APART is
        run as production would: no memory is filled. `parts` are told where the time goes. Raises
        NotLoadedError where loading the candidate raises, NurseryError where no process can be
        had, and CannotJudgeError where a required wall does not stand.
        """
        parts = parts or Parts()
        bare = scenario.mode is Mode.APART
        if self._worker is not None and (fresh or bare):
            await self._end()
        try:
            with parts.part(START):
                worker, baseline = await self._ready(bare)
            execution = ApartExecution(
                worker,
                self._segments,
                scenario,
                limits=self._limits,
                problem=self._problem,
                device=self._device,
                candidate=self._candidate,
                baseline=baseline,
                parts=parts,
            )
            try:
                end = await execution.run(inputs, None)
            finally:
                execution.close()
            text = execution.text if not execution.healthy else worker.take_output()
            if self._keep is not None and bare and execution.healthy:
                kept_kernels.take(worker.folder, self._keep)
            if bare or not execution.healthy:
                await self._end()
        except BaseException as error:
            self.unloadable = self.unloadable or isinstance(error, NotLoadedError)
            await self._end()
            raise
        result = ScenarioResult(records=tuple(execution.records), termination=end, output_text=text)
        return Ran(result, execution.tensors, execution.reached)

    async def _ready(self, bare: bool) -> tuple[WorkerHandle, Mapping[str, str] | None]:
        """Return a process that has loaded the candidate, and the state from before it did."""
        if self._worker is not None:
            return self._worker, None
        nursery = self._nursery()
        await nursery.wait_ready()
        mode = Mode.APART if bare else Mode.PLAIN
        self.started += 1
        self._follows = not bare
        worker = self._worker = WorkerHandle(
            nursery.plain, cache=nursery.folder, limits=self._limits, mode=mode
        )
        try:
            hello = await worker.ask({"do": "hello"}, limit_s=self._limits.build_s)
            baseline = hello.get("state")
            self.walls = dict(worker.walls)
            if confined() and walls.fallen(worker.walls):
                raise CannotJudgeError(walls.why_not_run(worker.walls))
            own = self._keep if bare else self._keep_followed
            if own is not None and self._keep is not None:
                kept_kernels.lay_out(own if own.is_dir() else self._keep, worker.folder)
            tuner: dict[str, str] = {}
            if self._choices is not None and not bare:
                kept_kernels.lay_out_choices(self._choices, worker.folder)
                tuner = {"tuner": str(tuned.__file__), "choices": hello["folder"]}
            root = write_sources(self._candidate, worker.folder).relative_to(worker.folder)
            reply = await worker.ask(
                {
                    "do": "load",
                    "device": self._device,
                    "root": str(PurePosixPath(hello["folder"]) / root),
                    "file": str(PurePosixPath(self._candidate.entry_file)),
                    "name": self._candidate.entry_function,
                    "follow": not bare,
                    **tuner,
                    # Some hold a problem beside the kernel, as they would where they are used.
                    "package": ROOT if _imports_us(self._candidate) else "",
                },
                limit_s=self._limits.build_s,
            )
        except GoneError as gone:
            raise NotLoadedError(f"while it was loaded: {gone}") from None
        raised = raised_in(reply, 0)
        if raised is not None:
            raise NotLoadedError(f"{raised.exception} while it was loaded: {raised.message}")
        return worker, read_texts(baseline)

    async def _end(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            if self._follows and self._keep_followed is not None:
                kept_kernels.take(worker.folder, self._keep_followed)
            await worker.end()
            worker.close()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            run_now(self._end())
        self._segments.close()
