"""Runs scenarios on an untrusted candidate: a pool of workers, one in use, some spare."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuassay.build.cuda.toolkit import toolchain
from cuassay.closing import Closing
from cuassay.home import cache_dir
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.problem import Problem, Reference
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.trace import (
    BuildFailed,
    ScenarioResult,
    Termination,
    ToolMissing,
)
from cuassay.sandbox import trees
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import Gone, GoneError, UnbornError, WorkerHandle
from cuassay.sandbox.host.nursery import Nursery, NurseryError
from cuassay.sandbox.host.own_lines import own_lines, with_own_lines
from cuassay.sandbox.host.parts import START, Parts
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeAnswers, MakeInputs
from cuassay.sandbox.ran import Ran

DEFAULT_LIMITS = Limits()
DEFAULT_BUILDER = "cuassay.build:load"
_SPARES = {"cpu": 1, "cuda": 3}
# What such a candidate imports: an operator of its own is traced, too (OPCHECK001).
_COMPILES = ("torch.compile", "torch._dynamo", "torch._inductor", "torch.library", "TORCH_LIBRARY")
# How a candidate makes streams of its own: by torch, the CUDA runtime or the driver.
_MAKES_STREAMS = re.compile(r"cuda\.(External)?Stream\b|StreamCreate|getStreamFromPool")


class _NotBuiltError(Exception):
    def __init__(self, termination: BuildFailed | ToolMissing) -> None:
        self.termination = termination
        super().__init__(termination.what)


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
        self._device, self._limits, self._builder = device, limits, builder
        self._shared = nursery
        self._spare_count = spares
        self._nursery = nursery or Nursery(device)
        self.digest = candidate_digest(candidate, toolchain(device))
        self._cache = (keep or cache_dir()) / self.digest
        self._cache.mkdir(parents=True, exist_ok=True)
        self._segments = Segments(device)
        self._current: WorkerHandle | None = None
        self._special: WorkerHandle | None = None  # the one in a mode of its own
        texts = (source.text for source in candidate.sources)
        self._has_streams = any(_MAKES_STREAMS.search(text) for text in texts)
        self._usual = self._special_kind = self._kind_of(Mode.PLAIN)
        self._spares: list[WorkerHandle] = []
        self._dying: list[WorkerHandle] = []
        self._failure: BuildFailed | ToolMissing | None = None
        self._built_once, self._closed = False, False
        self._build_s, self._cached, self._log = 0.0, False, ""
        self._started = 0
        self._kind, self._because, self._tuners = "", "", False
        self._sandbox: dict[str, str] = {}
        self._prepare_nursery()
        if not lazy:  # its build overlaps with what the judge does before the first scenario
            self._current = self._spawn()
            self._post_build(self._current)

    @property
    def build_s(self) -> float:
        """Seconds that the first build took, or 0 where nothing was built yet."""
        return self._build_s

    @property
    def started(self) -> int:
        """How many workers were started so far."""
        return self._started

    @property
    def built(self) -> bool:
        """Whether a worker has built the candidate."""
        return self._built_once

    @property
    def is_starting(self) -> bool:
        """Whether its first worker has not said anything yet."""
        return not self._built_once and self._current is not None and self._current.is_silent

    @property
    def compiles(self) -> bool:
        """Whether a build may take long because compilers run, which have a limit of their own."""
        return _compiles(self._candidate)

    @property
    def kind(self) -> str:
        """What the last worker says that it built, such as cuda_kernel+ptx-machine."""
        return self._kind

    @property
    def because(self) -> str:
        """Why the last worker says that Triton's interpreter makes the numbers: untrusted text."""
        return self._because

    @property
    def tunes(self) -> bool:
        """Whether a worker that has built the candidate says that it has autotuners."""
        return self._tuners

    async def wait_built(self) -> bool:
        """Wait until a first worker has built the candidate; return whether one has."""
        if not self._built_once:
            with contextlib.suppress(_NotBuiltError):  # the first scenario will say so
                await self._worker(fresh=False)
        return self._built_once

    def begin(self) -> None:
        """Start a worker, which begins to build, where there is none."""
        if self._current is None:
            self._current = self._spawn()
            self._post_build(self._current)

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What a process of its own needs to build the candidate as the workers do."""
        return self._build_request()

    @property
    def nursery(self) -> Nursery:
        """Where its workers come from."""
        return self._nursery

    @property
    def sandbox(self) -> Mapping[str, str]:
        """What holds the candidate on this machine: measure -> "yes", or why not."""
        refused = self._segments.refused
        shared = "yes" if self._segments.uses_ipc else f"no: {refused}" if refused else "host"
        return {**self._nursery.sandbox, **self._sandbox, "device memory shared": shared}

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
        except _NotBuiltError as error:
            return Ran(self._result((), error.termination, started, text=self._log), ())
        if scenario.mode is Mode.PLAIN:
            self._prepare_spares()
        if worker is self._special and self._device.on_gpu:
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
            await self._discard(worker)
            raise
        finally:
            execution.close()
        if not execution.healthy:
            await self._discard(worker)
        text = execution.text if not execution.healthy else worker.take_output()
        run = self._result(execution.records, end, started, text=text)
        return Ran(run, execution.tensors)

    async def make_ready(self, scenario: Scenario) -> None:
        """Wait for the worker that a scenario will run in, which has built then."""
        with contextlib.suppress(_NotBuiltError, NurseryError):  # the scenario will say so
            await self._worker(
                fresh=scenario.fresh, mode=scenario.mode, concurrent=scenario.is_concurrent
            )

    def expect(self, mode: Mode) -> None:
        """Fork a worker of a mode that is asked for soon: it builds while another one works."""
        if self._built_once and self._special is None and mode is not Mode.PLAIN:
            kind = self._kind_of(mode)
            self._special, self._special_kind = self._spawn(kind), kind
            self._post_build(self._special)

    def _result(
        self, records: Any, end: Termination, started: float, *, text: str
    ) -> ScenarioResult:
        return ScenarioResult(
            records=with_own_lines(records, self._candidate.sources),
            termination=end,
            output_text=text,
            build_s=self._build_s,
            build_cached=self._cached,
            duration_s=time.perf_counter() - started,
        )

    def _prepare_nursery(self) -> None:
        """Import the compiler once for all workers of a candidate that compiles itself."""
        texts = (source.text for source in self._candidate.sources)
        if any(sign in text for text in texts for sign in _COMPILES):
            self._nursery.load_compiler()

    def _kind_of(self, mode: Mode, *, concurrent: bool = False) -> tuple[Mode, bool]:
        """Return how a process is started: its mode, and whether it has all hardware queues.

        Without them the driver makes and ends a context in half the time (H100: 0.09 s a process
        instead of 0.19 with eight at once), and work may wait behind another stream's: nothing to
        one that uses a single stream, but a race between two could be hidden, and two kernels of
        which one waits for the other could hang.
        """
        return mode, self._device.on_gpu and (concurrent or self._has_streams)

    def _spawn(self, kind: tuple[Mode, bool] | None = None) -> WorkerHandle:
        """Fork a worker, by default of the usual kind."""
        self._started += 1
        mode, all_queues = kind or self._usual

        def fork() -> WorkerHandle:
            return WorkerHandle(
                self._nursery,
                cache=self._cache,
                limits=self._limits,
                mode=mode,
                queues=None if all_queues else 1,
            )

        try:
            return fork()
        except NurseryError:
            self._replace_nursery()
            return fork()

    def _replace_nursery(self) -> None:
        """A candidate may have killed the zygote: go on with a new one of our own."""
        old = self._nursery
        self._nursery = Nursery(self._device, machine=old.machine)
        if old is not self._shared:
            old.close()
        self._prepare_nursery()

    async def _worker(
        self, *, fresh: bool, mode: Mode = Mode.PLAIN, concurrent: bool = False
    ) -> WorkerHandle:
        """Return a healthy worker that has built the candidate. Raises _NotBuiltError."""
        if self._failure is not None:
            raise _NotBuiltError(self._failure)
        kind = self._kind_of(mode, concurrent=concurrent)
        usual = kind == self._usual
        worker = await (self._plain(fresh) if usual else self._special_of(fresh, kind))
        if not worker.built:
            await self._nursery.wait_ready()
            end = await self._build(worker)
            if end is not None:
                self._log = worker.take_output()
                await self._discard(worker)
                # A second attempt may succeed only where an earlier one did.
                self._failure = None if self._built_once else end
                raise _NotBuiltError(end)
            worker.built = self._built_once = True
        return worker

    async def _plain(self, fresh: bool) -> WorkerHandle:
        if self._current is not None and fresh and self._current.scenarios:
            await self._discard(self._current)
        await self._bury(all_of=False)
        if self._current is None:
            self._current = self._spares.pop(0) if self._spares else self._spawn()
        return self._current

    async def _special_of(self, fresh: bool, kind: tuple[Mode, bool]) -> WorkerHandle:
        """Return the worker that was started in an unusual way; there is one at a time."""
        held = self._special
        if held is not None and (self._special_kind != kind or (fresh and held.scenarios)):
            await self._discard(held)
        if self._special is None:
            self._special, self._special_kind = self._spawn(kind), kind
        return self._special

    def _prepare_spares(self) -> None:
        """Fork the next workers now, and let them build while this one works.

        Only after one build has ended: two compilers on the same sources help nobody. A CUDA
        context takes about half a second, so there several are kept ready.
        """
        usual = _SPARES[self._device.kind]
        wanted = usual if self._spare_count is None else self._spare_count
        while len(self._spares) < wanted:
            self._spares.append(self._spawn())
        for spare in self._spares:
            if spare.build_nonce is None:
                self._post_build(spare)

    def _post_build(self, worker: WorkerHandle) -> None:
        with contextlib.suppress(GoneError):  # seen again, and reported, when it is waited for
            worker.build_nonce = worker.post(self._build_request())

    def _build_request(self) -> dict[str, Any]:
        return {
            "do": "build",
            "candidate": serial.to_json(self._candidate),
            "problem": serial.to_json(_redacted(self._problem)),
            "folder": str(self._cache),
            "builder": self._builder,
            "result_bytes": self._limits.results_bytes,
        }

    async def _build(self, worker: WorkerHandle) -> BuildFailed | ToolMissing | None:
        """Wait for a worker's build; return why it failed, None where it did not."""
        try:
            nonce = worker.build_nonce or worker.post(self._build_request())
            reply = await worker.wait(nonce, self._limits.build_s)
        except GoneError as error:
            return await self._died_building(worker, error)
        except UnbornError:
            raise
        except NurseryError as error:
            self._replace_nursery()
            return BuildFailed(what="the candidate ended its parent process", log=str(error))
        self._sandbox = self._sandbox or worker.walls
        if "missing" in reply:
            return ToolMissing(what=str(reply["missing"]))
        failed, built = reply.get("failed"), reply.get("built")
        if isinstance(failed, dict):
            return BuildFailed(
                what=str(failed.get("what")),
                log=str(failed.get("log")),
                frames=own_lines(_frames(failed.get("frames")), self._candidate.sources),
                out_of_memory=failed.get("memory") is True,
            )
        if not isinstance(built, dict) or not isinstance(built.get("seconds"), float):
            return BuildFailed(what="the build sent no valid reply", log="")
        if not self._built_once:
            self._build_s, self._cached = built["seconds"], bool(built.get("cached"))
        self._kind = str(built.get("kind", ""))[:200]
        self._because = str(built.get("because", ""))[:1000]
        self._tuners = built.get("tuners") not in (None, 0)
        return None

    async def _died_building(
        self, worker: WorkerHandle, gone: GoneError
    ) -> BuildFailed | ToolMissing:
        if gone.kind is Gone.TIMEOUT:
            what = f"building and importing did not end within {self._limits.build_s:g} s"
            if _compiles(self._candidate):
                return ToolMissing(what=f"{what}: run it again, what was compiled is kept")
        elif gone.kind is Gone.ENDED:
            status = await worker.end()
            signal = status & 0x7F
            how = f"died of signal {signal}" if signal else f"exited with code {status >> 8}"
            what = f"the process {how} while it built and imported the candidate"
        else:
            what = f"while building and importing: {gone.what}"
        return BuildFailed(what=what, log=worker.take_output())

    async def _discard(self, worker: WorkerHandle) -> None:
        """End a worker in use; the next scenario gets another.

        The end of a CUDA context, 70 ms, is not waited for: what a dying process may still do
        to the memory it shares, it can do to nobody but its own candidate.
        """
        if worker is self._special:
            self._special = None
        else:
            self._current = None
        self._dying.append(worker)
        with contextlib.suppress(NurseryError):
            worker.kill()
        if not self._device.on_gpu:
            await self._bury()

    async def _bury(self, *, all_of: bool = True) -> None:
        """Close the handles of workers that were killed, waiting for those with `all_of`."""
        left = []
        for worker in self._dying:
            if not all_of and not worker.has_ended():
                left.append(worker)
                continue
            with contextlib.suppress(NurseryError, TimeoutError):
                await worker.end()
            worker.close()
        self._dying = left

    def kill(self) -> None:
        """Begin to end every worker: a CUDA context takes a while. `close` waits for it."""
        self._dying += [*filter(None, [self._current, self._special]), *self._spares]
        self._current, self._special, self._spares = None, None, []
        for worker in self._dying:
            with contextlib.suppress(NurseryError):
                worker.kill()

    @property
    def holds_memory(self) -> bool:
        """Whether a worker is there, or memory that was shared with one."""
        workers = self._current is not None or self._special is not None
        return workers or self._segments.holds_memory

    def let_go(self) -> None:
        """End every worker and free what was shared with them; the next scenario begins anew."""
        self.kill()
        run_now(self._bury())
        self._segments.close()

    def close(self) -> None:
        """End every worker and free what was shared with them."""
        if self._closed:
            return
        self._closed = True
        self.kill()
        if self._dying:
            run_now(self._bury())
        if self._nursery is not self._shared:
            self._nursery.close()
        self._segments.close()
        limits = self._limits
        if trees.excess(
            self._cache,
            files=limits.cache_files,
            depth=limits.folder_levels,
            size=limits.cache_bytes,
        ):
            trees.remove(self._cache)


def _compiles(candidate: Candidate) -> bool:
    """Whether a build may take long because compilers run: no hang, then, of the candidate's."""
    inline = any("cpp_extension" in source.text for source in candidate.sources)
    return inline or candidate.language is not Language.PYTHON


def _redacted(problem: Problem) -> Problem:
    """Return what a build needs to know: no reference, no workloads, no tolerances."""
    return dataclasses.replace(
        problem,
        reference=Reference(path=Path()),
        workloads=(),
        path=None,
        description="",
        growth_target={},
    )


def _frames(said: object) -> tuple[tuple[str, int], ...]:
    """Return (file, line) pairs of a worker's reply; what does not fit is left out."""
    found = []
    for one in said if isinstance(said, list) else ():
        if isinstance(one, list) and len(one) == 2 and isinstance(one[1], int):
            found.append((str(one[0])[:500], one[1]))
    return tuple(found[:20])
