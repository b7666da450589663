"""One scenario on one worker, step by step: what is sent, what is believed of the replies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch

from cuassay.errors import UsageError
from cuassay.inputs.geometry import tensor_bytes
from cuassay.model import serial
from cuassay.model.device import Device
from cuassay.model.problem import Problem, Scalar
from cuassay.model.reached import Reached, read_reached
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.steps import Time
from cuassay.model.trace import (
    Exited,
    Finished,
    Flooded,
    Garbled,
    Killed,
    StepDone,
    StepRaised,
    StepRecord,
    Termination,
    TimedOut,
)
from cuassay.sandbox.device_memory import DeviceMemoryError
from cuassay.sandbox.guest.items import DTYPES
from cuassay.sandbox.guest.transport import nbytes
from cuassay.sandbox.host.handle import Gone, GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import NurseryError
from cuassay.sandbox.host.parts import FROM_WORKER, TO_WORKER, VALUES, Parts
from cuassay.sandbox.host.segments import Package, Segments, StillWritableError
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeAnswers, MakeInputs
from cuassay.sandbox.ran import renumbered

_KINDS = ("tensor", "scalar", "none", "other")
_FACTS, _FACT_CAP = 1024, 8192
_BOUND = 1 << 48
# What a read may bring beside its outputs: a wrong shape is still shown as it is.
_SPARE_BYTES, _SPARE_TIMES = 64 << 20, 4
Layout = tuple[str, tuple[int, ...]]


class Execution:
    """Drives a worker through a scenario; afterwards `healthy` says whether it may go on."""

    def __init__(
        self,
        worker: WorkerHandle,
        segments: Segments,
        scenario: Scenario,
        *,
        limits: Limits,
        problem: Problem,
        device: Device,
        parts: Parts | None = None,
    ) -> None:
        self._parts = parts or Parts()
        self._worker, self._segments, self._scenario = worker, segments, scenario
        self._limits, self._problem = limits, problem
        limit_s, idles = scenario.timeout_s, device.on_gpu
        self._reply_to = partial(worker.wait, limit_s=limit_s, may_be_idle=idles)
        self._packages: dict[int, Package] = {}
        self._slots: dict[str, int] = {}
        self._index = 0
        self.records: list[StepRecord] = []
        self.tensors: list[torch.Tensor] = []
        self.reached = Reached()
        self.healthy = True
        self.text = ""

    async def run(self, inputs: MakeInputs, answers: MakeAnswers | None) -> Termination:
        """Execute every step, or as many as the worker lives for."""
        try:
            sizes = [dict(case.axes) for case in self._scenario.cases]  # never the seeds
            await self._ask({"do": "begin", "cases": sizes})
            for index in range(len(self._scenario.steps)):
                self._index = index
                self.records.append(await self._step(inputs, answers))
                if not self.healthy:
                    # Record the steps that can no longer run.
                    for later in range(self._index + 1, len(self._scenario.steps)):
                        what = f"step {self._index} left the device in an error state"
                        self.records.append(
                            StepRaised(index=later, exception="ContextLost", message=what)
                        )
                    self.text = self._worker.take_output()
                    break
        except GoneError as gone:
            self.healthy = False
            index = self._index
            status = await self._worker.end()
            self.text = self._worker.take_output()
            match gone.kind:
                case Gone.TIMEOUT:
                    return TimedOut(index=index, limit_s=self._scenario.timeout_s)
                case Gone.IDLE:
                    return TimedOut(index=index, limit_s=self._limits.idle_s, idle=True)
                case Gone.EXCESS:
                    self.text += f"\n[ended by cuassay: {gone.what}]"
                    return Killed(index=index, signal=int(signal.SIGKILL))
                case Gone.GARBLED:
                    return Garbled(index=index, what=gone.what)
                case Gone.FLOODED:
                    return Flooded(index=index, what=gone.what)
                case Gone.ENDED if os.WIFSIGNALED(status):
                    return Killed(index=index, signal=os.WTERMSIG(status))
                case Gone.ENDED:
                    return Exited(index=index, exit_code=os.WEXITSTATUS(status))
        except NurseryError:
            self.healthy = False
            self.text = self._worker.take_output()
            return Garbled(index=self._index, what="the process that workers come from was killed")
        return Finished()

    async def _ask(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        return await self._reply_to(self._worker.post({**message}, fds))

    async def _step(self, inputs: MakeInputs, answers: MakeAnswers | None) -> StepRecord:
        """Run the current step; give the worker up where its device context did not survive it."""
        step = self._scenario.steps[self._index]
        message = {"do": "step", "index": self._index, "step": serial.to_json(step)}
        started = time.perf_counter()
        name = type(step).__name__
        reply = await self._exchange(message, lambda: self._package(inputs, answers), name)
        record = self._record(reply)
        if "ran" in reply:
            self.reached |= read_reached(reply["ran"])
        if isinstance(step, Time) and isinstance(record, StepDone):  # our clock, not theirs
            record = replace(record, duration_s=time.perf_counter() - started)
        if isinstance(record, StepDone) and isinstance(step, ReadResult):
            record = self._of_plausible_size(record)
        if isinstance(record, StepDone) and any(item.buffer >= 0 for item in record.items):
            record = await self._fetch(record)
        self.healthy = reply.get("lost") is not True
        return record

    async def _exchange(
        self, message: Mapping[str, Any], make: Callable[[], Package | None], part: str
    ) -> dict[str, Any]:
        """Send a message with its package; where handles are refused, again with bytes.

        The reply is waited for as `part` of the scenario's time.
        """
        while True:
            try:
                package = self._segments.packed(make)
            except DeviceMemoryError as error:
                self._segments.use_bytes(str(error))
                package = make()
            data, fds = ({}, ()) if package is None else ({"data": package.data}, package.fds)
            with self._parts.part(part):
                reply = await self._reply_to(self._worker.post({**message, **data}, fds))
            if "refused" not in reply or package is None or not self._segments.uses_ipc:
                return reply
            self._segments.use_bytes(str(reply["refused"])[:300])

    def _package(self, inputs: MakeInputs, answers: MakeAnswers | None) -> Package | None:
        """Return what the current step needs: inputs are packed again only where they must be."""
        step = self._scenario.steps[self._index]
        if step.fills is not None:
            slot, case = step.fills
            self._slots[slot] = case
            held = self._packages.get(case)
            refused = (
                held is not None and held.data["kind"] == "ipc" and not self._segments.uses_ipc
            )
            if held is None or refused or not self._segments.still_holds(held):
                with self._parts.part(VALUES):
                    made = inputs(self._scenario.cases[case])
                with self._parts.part(TO_WORKER):
                    held = self._packages[case] = self._segments.pack(made)
            return held
        if not step.wants_answers or answers is None or step.wants_answers not in self._slots:
            return None
        with self._parts.part(VALUES):
            right = answers(self._scenario.cases[self._slots[step.wants_answers]])
        nothing: Mapping[str, torch.Tensor | Scalar] = {}
        with self._parts.part(TO_WORKER):
            package = self._segments.pack(nothing, right)
        self._packages[-1 - self._index] = package  # closed with the others
        return package

    def _record(self, reply: dict[str, Any]) -> StepRecord:
        """Return the record in a reply. Raises GoneError for one that is not plausible."""
        try:
            record: StepRecord = serial.from_json(StepRecord, reply.get("record"))
        except (UsageError, TypeError, ValueError, RecursionError, AttributeError) as error:
            raise GoneError(Gone.GARBLED, f"a reply that is no record: {error}"[:300]) from None
        if record.index != self._index:
            raise GoneError(Gone.GARBLED, f"a record of step {record.index}")
        if isinstance(record, StepDone):
            self._check_items(record)
        return record

    def _check_items(self, record: StepDone, *, read_here: bool = False) -> None:
        """Raise GoneError for items that the current step cannot have.

        With `read_here` the judge reads their bytes itself.
        """
        reads = read_here or self._scenario.steps[self._index].sends
        if len(record.facts) > _FACTS or any(len(a) + len(b) > _FACT_CAP for a, b in record.facts):
            raise GoneError(Gone.GARBLED, "more facts than any step has")
        if record.report is not None and len(serial.dumps(record.report)) > _FACT_CAP:
            raise GoneError(Gone.GARBLED, "a longer report than any step has")
        sent = [item for item in record.items if item.buffer >= 0]
        numbered = [item.buffer for item in sent] == list(range(len(sent)))
        plausible = all(
            item.kind in _KINDS and all(0 <= size < _BOUND for size in item.shape)
            for item in record.items
        )
        if not plausible or not numbered or (sent and not reads):
            raise GoneError(Gone.GARBLED, "a record that describes impossible items")
        if any(item.kind != "tensor" or item.dtype not in DTYPES for item in sent):
            raise GoneError(Gone.GARBLED, "bytes of something that is no tensor")
        total = sum(nbytes(item.dtype, item.shape) for item in sent)
        if total > self._limits.results_bytes:
            raise GoneError(Gone.GARBLED, f"results of {total} bytes")

    @cached_property
    def _expected_bytes(self) -> int:
        """The most that the outputs of any of the cases have."""
        specs, cases = self._problem.outputs, self._scenario.cases
        return max((tensor_bytes(specs, case.axes) for case in cases), default=0)

    def _of_plausible_size(self, record: StepDone) -> StepRecord:
        """Return the record of a read, or an exception where it announces far more than it may.

        Nothing is fetched then: making room for it would cost the judge what it announces.
        """
        allowed = _SPARE_BYTES + _SPARE_TIMES * self._expected_bytes
        announced = sum(
            nbytes(item.dtype, item.shape)
            for item in record.items
            if item.kind == "tensor" and item.dtype in DTYPES
        )
        if announced <= allowed or not self._problem.outputs:
            return record
        return StepRaised(
            index=record.index,
            exception="OversizedResult",
            message=f"the call returned {announced:,} bytes where its outputs have "
            f"{self._expected_bytes:,}",
        )

    async def _fetch(
        self, record: StepDone, request: Mapping[str, Any] | None = None
    ) -> StepRecord:
        """Make room for the announced tensors, let the worker write them, take them over."""
        sent = [item for item in record.items if item.buffer >= 0]
        layouts: list[Layout] = [(item.dtype, item.shape) for item in sent]
        rooms: list[Package] = []

        def make() -> Package:
            rooms.append(self._segments.room(layouts))
            return rooms[-1]

        try:
            reply = await self._exchange(request or {"do": "write"}, make, FROM_WORKER)
            if reply.get("written") is not True:
                return self._record(reply)
            with self._parts.part(FROM_WORKER):
                found = self._segments.read(rooms[-1], layouts)
        except StillWritableError:
            raise GoneError(Gone.GARBLED, "results that the worker can still change") from None
        finally:
            for room in rooms:
                room.close()
        base = len(self.tensors)
        self.tensors += found
        return renumbered(record, base)

    def close(self) -> None:
        """Close what was shared with the worker."""
        for package in self._packages.values():
            package.close()
        self._packages.clear()
