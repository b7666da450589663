"""Drives a process that holds nothing of cuassay through the steps of a scenario."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from cuassay.model.axes import shape_of
from cuassay.model.candidate import Candidate, Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem
from cuassay.model.reached import Exchange, Spoiled, read_reached
from cuassay.model.reports import Holding, Holdings, Returned
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Scenario,
)
from cuassay.model.steps import CallOften, Mode, ReadState
from cuassay.model.trace import (
    Exited,
    Killed,
    ResultItem,
    StepDone,
    StepRaised,
    StepRecord,
    Termination,
)
from cuassay.sandbox.guest.callers.timing import spans
from cuassay.sandbox.guest.items import DTYPES, digest, host_memory, with_overlaps
from cuassay.sandbox.guest.memory.placement import byte_of
from cuassay.sandbox.guest.observe.state_snapshot import TEXT_MOST, differences
from cuassay.sandbox.host.apart_memory import (
    Described,
    SharedArguments,
    raised_in,
    read_described,
    read_texts,
    segment_for,
)
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import Gone, GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import ROOT, STATE
from cuassay.sandbox.host.parts import Parts
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeInputs
from cuassay.sandbox.processes import holding
from cuassay.sandbox.ran import renumbered
from cuassay.sandbox.syscalls import read_memory_into

_OFTEN = "often"  # the name of the result of each of many calls
_LATER_S = 40 * 24 * 3600.0  # by which clocks go on between two calls, as if production went on
_PACE_S = 0.25  # times 2^-8 to 2^8, at each reading after the first call, as on a busy machine


class ApartExecution(Execution):
    """Drives a process of `guest.apart` through a scenario."""

    def __init__(
        self,
        worker: WorkerHandle,
        segments: Segments,
        scenario: Scenario,
        *,
        limits: Limits,
        problem: Problem,
        device: Device,
        candidate: Candidate,
        baseline: Mapping[str, str] | None,
        parts: Parts | None = None,
    ) -> None:
        super().__init__(
            worker,
            segments,
            scenario,
            limits=limits,
            problem=problem,
            device=device,
            parts=parts,
        )
        self._candidate, self._baseline = candidate, baseline
        self._shared: dict[str, SharedArguments] = {}
        self._results: dict[str, tuple[Described, ...]] = {}
        self._called = False
        # What was asked for at once: what arguments lie in, and the replies that are to come.
        self._asks_ahead = (
            scenario.at_once and candidate.convention is Convention.RETURNS and not problem.updated
        )
        self._laid: dict[str, SharedArguments] = {}
        self._nonce, self._coming, self._early = "", 0, deque[dict[str, Any]]()
        self._segment: int | None = None
        # Of a call whose result nobody reads no line counts as judged.
        reads = (step for step in scenario.steps if isinstance(step, ReadResult))
        self._read_later = {step.result for step in reads}

    def _beginning(self) -> dict[str, Any]:
        return {"do": "begin"}

    def is_too_late(self, end: Termination) -> bool:
        """Whether results of calls that were asked for ahead were gone before they were read.

        The process may have ended meanwhile, or a later call may have written where one lay.
        """
        if not self._asks_ahead:
            return False
        reach, owner = 0, ""
        for at, span, name in sorted(
            (one.at, one.span, name)
            for name, of in self._results.items()
            for one in of
            if one.at and one.span
        ):
            if at < reach and name != owner:
                return True
            if at + span > reach:
                reach, owner = at + span, name
        return isinstance(end, Exited | Killed)

    async def _ask(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        if not self._coming:
            return await super()._ask(message, fds)
        self._coming -= 1
        if self._early:
            return self._early.popleft()
        return await self._reply_to(self._nonce, more=self._coming > 0)

    async def _ask_ahead(self, inputs: MakeInputs) -> None:
        """Lay all arguments into one segment, and ask for all calls without a wait in between."""
        each = [
            (step.slot, dict(inputs(self._scenario.cases[step.case])))
            for step in self._scenario.steps
            if isinstance(step, Allocate)
        ]
        segment, size, places = segment_for([values for _, values in each])
        self._segment = segment
        for (slot, values), at in zip(each, places, strict=True):
            self._laid[slot] = SharedArguments(values, [], fd=segment, at=at)
        requests: list[dict[str, Any]] = []
        for step in self._scenario.steps:
            if isinstance(step, Allocate):
                requests.append(_place(step.slot, self._laid[step.slot]) | {"size": size})
            elif isinstance(step, Call):
                requests.append(self._call_request(step, []))
        self._nonce = self._worker.post({"do": "each", "each": requests}, (segment,))
        self._coming = len(requests)

    async def _step(  # noqa: C901, PLR0911, PLR0912  # a line a step
        self, inputs: MakeInputs, answers: object
    ) -> StepRecord:
        step = self._scenario.steps[self._index]
        done = StepDone(index=self._index)
        if self._asks_ahead and not self._index:
            with self._parts.part("Call"):
                await self._ask_ahead(inputs)
        with self._parts.part(type(step).__name__):
            match step:
                case Allocate(slot=slot, case=case, read_only=read_only):
                    case_ = self._scenario.cases[case]
                    return await self._allocate(slot, case_, inputs, read_only=read_only)
                case Refill(slot=slot, case=case):
                    found = self._slot(slot)
                    if isinstance(found, StepRaised):
                        return found
                    refused = found.refill(inputs(self._scenario.cases[case]))
                    if refused:
                        return StepRaised(
                            index=self._index, exception="ValueError", message=refused
                        )
                    return await self._told(found.forth(slot)) or done
                case Call():
                    return await self._call(step)
                case CallOften():
                    return await self._call_often(step)
                case ReadResult(result=result):
                    return await self._read(result)
                case HashResult(result=result):
                    mark = len(self.tensors)
                    record = await self._read(result)
                    if isinstance(record, StepRaised):
                        return record
                    made = digest(
                        [self.tensors[item.buffer] for item in record.items if item.buffer >= 0]
                    )
                    del self.tensors[mark:]
                    items = tuple(replace(item, buffer=-1) for item in record.items)
                    return replace(record, items=items, digest=made)
                case ReadInputs(slot=slot, only=only):
                    found = self._slot(slot)
                    if isinstance(found, StepRaised):
                        return found
                    return await self._inputs_now(slot, found, only)
                case Release(name=name):
                    told = await self._told({"do": "release", "name": name})
                    self._results.pop(name, None)
                    if name in self._shared:
                        self._shared.pop(name).close()
                    return told or done
                case ReadState():
                    return await self._state()
                case _:
                    raise AssertionError(f"{type(step).__name__} is no step of a process apart")

    async def _told(self, message: dict[str, Any], fds: Sequence[int] = ()) -> StepRaised | None:
        """Ask for something that has no answer; return what was raised instead."""
        return raised_in(await self._ask(message, fds), self._index)

    def _slot(self, name: str) -> SharedArguments | StepRaised:
        held = self._shared.get(name)
        if held is None:
            what = f"slot '{name}' holds nothing: its Allocate step is missing"
            return StepRaised(index=self._index, exception="NoResultError", message=what)
        return held

    async def _allocate(
        self, slot: str, case: Case, inputs: MakeInputs, *, read_only: bool
    ) -> StepRecord:
        if slot in self._shared:
            self._shared.pop(slot).close()
        if slot in self._laid:
            held = self._shared[slot] = self._laid.pop(slot)
            return self._placed(held, await self._ask({}))
        values = dict(inputs(case))
        outputs = []
        if self._candidate.convention is Convention.DESTINATION:
            for spec in self._problem.outputs:
                dtype, shape = DTYPES[spec.dtype.value], shape_of(spec.shape, case.axes)
                filled = torch.full((*shape, dtype.itemsize), 0xFF, dtype=torch.uint8)
                values[spec.name] = filled.view(dtype).reshape(shape)
                outputs.append(spec.name)
        held = self._shared[slot] = SharedArguments(values, outputs, self._problem.updated)
        place = _place(slot, held)
        if read_only:  # by a descriptor that no mapping can be written through
            shown = os.open(f"/proc/self/fd/{held.fd}", os.O_RDONLY | os.O_CLOEXEC)
            pairs = zip(values, held.layout, strict=True)
            own = [entry | {"own": name in outputs} for name, entry in pairs]
            try:
                reply = await self._ask(place | {"read_only": True, "layout": own}, (shown,))
            finally:
                os.close(shown)
        else:
            reply = await self._ask(place, (held.fd,))
        return self._placed(held, reply)

    def _placed(self, held: SharedArguments, reply: Mapping[str, Any]) -> StepRecord:
        raised = raised_in(reply, self._index)
        if raised is not None:
            return raised
        found = reply.get("at")
        if not isinstance(found, list) or len(found) != len(held.names):
            raise GoneError(Gone.GARBLED, "arguments that are not where they were laid")
        held.places = [one if isinstance(one, int) else 0 for one in found]
        return StepDone(index=self._index, items=held.described)

    async def _call(self, step: Call, *, before: int = 0) -> StepRecord:
        """Call, after `before` calls on the same arguments whose results nobody keeps."""
        held = self._slot(step.slot)
        if isinstance(held, StepRaised):
            return held
        self._results.pop(step.result, None)
        request = self._call_request(step, held.outputs) | {"before": before}
        rewritten = held.restore()
        if "fill" in request and held.outputs:
            held.fill_outputs(request["fill"])
            rewritten = True
        if rewritten:
            raised = await self._told(held.forth(step.slot))
            if raised is not None:
                return raised
        reply = await self._ask(request)
        raised = raised_in(reply, self._index)
        if raised is not None:
            return raised
        self.reached |= read_reached(reply.get("ran"))
        did = (reply.get("exchanged") is True) is (step.exchange is not None)
        found = reply.get("items") if did else []
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise GoneError(Gone.GARBLED, "a result that is not described")
        found = [{**item, "number": number} for number, item in enumerate(found[:256])]
        if self._candidate.convention is Convention.RETURNS:
            # What a call returned with names, in the declared order; see `items.elements`
            names = [spec.name for spec in self._problem.outputs]
            given = [str(item.get("name", "")) for item in found]
            if any(given):
                by_name = dict(zip(given, found, strict=True))
                found = [by_name[name] for name in names] if set(given) == set(names) else found
            elif len(found) == len(names):
                found = [{**item, "name": name} for item, name in zip(found, names, strict=True)]
        described = [read_described(item, held) for item in found]
        overlapping = with_overlaps([one.item for one in described], [one.at for one in described])
        for one, item in zip(described, overlapping, strict=True):
            one.item = item
        report = None
        if self._candidate.convention is Convention.RETURNS:
            report = Returned(container=str(reply.get("container", ""))[:200])
        record = StepDone(
            index=self._index, items=tuple(one.item for one in described), report=report
        )
        self._check_items(record)
        self._results[step.result] = tuple(described)
        return record

    def _call_request(self, step: Call, outputs: list[str]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "do": "call",
            "slot": step.slot,
            "result": step.result,
            "outputs": outputs,
            "before": 0,
            "part": step.exchange.told if isinstance(step.exchange, Exchange | Spoiled) else None,
            "follow": step.noted and step.result in self._read_later and step.exchange is None,
            "later_s": _LATER_S if self._called else 0.0,
            "pace_s": _PACE_S if self._called else 0.0,
        }
        self._called = True
        byte = byte_of(step.poison)
        if self._scenario.mode is not Mode.APART and byte is not None:
            message["fill"] = byte
        return message

    async def _call_often(self, step: CallOften) -> StepRecord:
        found: list[Holding] = []
        calls, taken_s = 0, list[float]()
        for count, looks in spans(step, taken_s):
            started = time.monotonic()
            # What a call updates is put back before the next one, by this side.
            messages, each = (count, 1) if self._problem.updated else (min(count, 1), count)
            for _ in range(messages):
                made = await self._call(Call(slot=step.slot, result=_OFTEN), before=each - 1)
                if isinstance(made, StepRaised):
                    return made
            taken_s.append(time.monotonic() - started)
            calls += count
            self._results.pop(_OFTEN, None)
            told = await self._told({"do": "release", "name": _OFTEN})
            if told is not None:
                return told
            if not looks:
                continue
            rested: dict[str, Any] = {}
            if step.looks:
                rested = await self._ask({"do": "rest"})
            else:
                found.clear()
            pid = self._worker.pid
            if pid is not None:
                objects, garbage = (
                    value if isinstance(value := rested.get(name), int) else 0
                    for name in ("objects", "garbage")
                )
                found.append(holding(pid, calls=calls, objects=objects, garbage=garbage))
        if step.result:
            made = await self._call(Call(slot=step.slot, result=step.result))
            if isinstance(made, StepRaised):
                return made
        return StepDone(index=self._index, report=Holdings(found=tuple(found)))

    async def _read(self, result: str) -> StepRecord:
        if result not in self._results:
            what = f"result '{result}' is not there: its Call step raised"
            return StepRaised(index=self._index, exception="NoResultError", message=what)
        described = self._results[result]
        numbered: list[ResultItem] = []
        for one in described:
            sent = sum(found.buffer >= 0 for found in numbered)
            tensor = one.item.kind == "tensor"
            numbered.append(replace(one.item, buffer=sent) if tensor else one.item)
        record = StepDone(index=self._index, items=tuple(numbered))
        self._check_items(record, read_here=True)
        plausible = self._of_plausible_size(record)
        if not isinstance(plausible, StepDone) or not any(i.buffer >= 0 for i in numbered):
            return plausible
        seen = self._seen(described)
        if seen is not None:
            base = len(self.tensors)
            self.tensors += seen
            return renumbered(plausible, base)
        while len(self._early) < self._coming:  # nothing else may be asked for before
            more = len(self._early) + 1 < self._coming
            self._early.append(await self._reply_to(self._nonce, more=more))
        which = [one.number for one in described if one.item.kind == "tensor"]
        return await self._fetch(plausible, {"do": "write", "result": result, "which": which})

    def _seen(self, described: Sequence[Described]) -> list[torch.Tensor] | None:
        """Return the tensors of a result as they lie in the process's memory.

        None where one does not lie there as it is, or where the system lets nobody read it.
        """
        pid = self._worker.pid
        wanted = [one for one in described if one.item.kind == "tensor"]
        if pid is None or not all(one.readable for one in wanted):
            return None
        found = []
        for one in wanted:
            raw = torch.empty(one.span, dtype=torch.uint8)
            try:
                read_memory_into(pid, one.at, host_memory(raw))
            except OSError:
                return None
            dtype, shape = one.item.dtype, one.item.shape
            whole = (raw != 0) if dtype == "bool" else raw.view(DTYPES[dtype])
            found.append(whole.as_strided(shape, one.item.strides).contiguous())
        return found

    async def _inputs_now(self, slot: str, held: SharedArguments, only: str) -> StepRecord:
        """Return the bytes of the inputs as they are, read from memory that the judge made.

        After them each input as the process has it: what a call made of its shape, say.
        """
        reply = await self._ask({"do": "back", "slot": slot})
        raised = raised_in(reply, self._index)
        if raised is not None:
            return raised
        told = reply.get("inputs")
        described = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
        if not isinstance(told, list) or not len(held.names) == len(described) == len(told):
            raise GoneError(Gone.GARBLED, "inputs that are not described")
        items: list[ResultItem] = []
        for name, data in held.inputs().items():
            if only not in ("", name):
                continue
            items.append(
                ResultItem(
                    kind="tensor",
                    type_name="torch.Tensor",
                    dtype="uint8",
                    shape=(data.numel(),),
                    strides=(1,),
                    device=CPU,
                    buffer=len(self.tensors),
                    name=name,
                )
            )
            self.tensors.append(data)
        for name, one in zip(held.names, described, strict=True):
            if name not in held.outputs and only in ("", name):
                found = {"kind": "tensor", "type_name": "", "device": "", "number": 0, "name": name}
                items.append(read_described({**one, **found}, held).item)
        return StepDone(index=self._index, items=tuple(items))

    async def _state(self) -> StepRecord:
        """Return what differs from the state before the candidate was loaded."""
        if self._baseline is None:
            what = "there is no state to compare with: this process took no baseline"
            return StepRaised(index=self._index, exception="RuntimeError", message=what)
        reply = await self._ask({"do": "look", "import": STATE, "path": ROOT})
        raised = raised_in(reply, self._index)
        if raised is not None:
            return raised
        now = read_texts(reply.get("state")) or {}
        if any(name not in now for name in self._baseline if not name.startswith("environment ")):
            raise GoneError(Gone.GARBLED, "a state of the process that is not whole")
        changed = differences(self._baseline, now)
        facts = [(name[:TEXT_MOST], f"{old} -> {new}") for name, (old, new) in changed.items()]
        return StepDone(index=self._index, facts=tuple(facts[:200]))

    def close(self) -> None:
        """Close what was shared with the process."""
        for held in self._shared.values():
            held.close()
        if self._segment is not None:
            os.close(self._segment)
        super().close()


def _place(slot: str, held: SharedArguments) -> dict[str, Any]:
    return {"do": "place", "slot": slot, "layout": held.layout, "size": held.size}
