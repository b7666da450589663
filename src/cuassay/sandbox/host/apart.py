"""Scenarios in processes that hold nothing of cuassay: this side owns memory, order and reading.

The guest (`guest.apart`) loads a function and calls it. Where its inputs lie, what they were,
what they are after a call, and what a result is are all read here: inputs from memory that the
judge made and shares, results from the guest's memory at the place where they lay as the call
ended. On a GPU both are copies that the guest makes.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from cuassay.build.sources import write_sources
from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError
from cuassay.model import serial, walls
from cuassay.model.axes import shape_of
from cuassay.model.candidate import Candidate, Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem, Scalar
from cuassay.model.reports import Holding, Holdings, Returned
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
from cuassay.model.steps import CallOften, Mode, ReadState
from cuassay.model.trace import (
    Claim,
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
)
from cuassay.sandbox.guest.callers.timing import spans
from cuassay.sandbox.guest.items import DTYPES, digest, host_memory, with_overlaps
from cuassay.sandbox.guest.memory.placement import byte_of
from cuassay.sandbox.guest.observe.state_snapshot import TEXT_MOST, differences
from cuassay.sandbox.guest.transport import aligned_offsets, nbytes
from cuassay.sandbox.host import kept_kernels
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import Gone, GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import ROOT, STATE, Nursery, confined
from cuassay.sandbox.host.parts import START, Parts
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.host.unnamed import make_memory
from cuassay.sandbox.host.waits import run_now
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeInputs
from cuassay.sandbox.no_memory import says_no_memory
from cuassay.sandbox.processes import holding
from cuassay.sandbox.ran import Ran, renumbered
from cuassay.sandbox.syscalls import read_memory_into

_CHUNK = 1 << 30
_FLAGS = {"conj": "conjugate bit", "neg": "negative bit"}
_OFTEN = "often"  # the name of the result of each of many calls
_FAR, _MOST_AXES = 1 << 48, 64  # what torch can lay out
_SPREAD = 4  # a result may span this many times the bytes it has, and is read as a whole


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
    kept in `keep`, by the candidate's contents, if that is given.
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
    ) -> None:
        self._candidate, self._problem = candidate, problem
        self._device, self._nursery, self._limits = device, nursery, limits
        self._keep = keep
        self._segments = Segments(device)
        self._segments.use_bytes("")
        self._worker: WorkerHandle | None = None
        self.walls: Mapping[str, str] = {}  # which stood around the last process that was started
        self.started = 0  # processes so far

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
            execution = _Apart(
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
        except BaseException:
            await self._end()
            raise
        result = ScenarioResult(records=tuple(execution.records), termination=end, output_text=text)
        return Ran(result, execution.tensors)

    async def _ready(self, bare: bool) -> tuple[WorkerHandle, Mapping[str, str] | None]:
        """Return a process that has loaded the candidate, and the state from before it did."""
        if self._worker is not None:
            return self._worker, None
        nursery = self._nursery()
        await nursery.wait_ready()
        mode = Mode.APART if bare else Mode.PLAIN
        self.started += 1
        worker = self._worker = WorkerHandle(
            nursery.plain, cache=nursery.folder, limits=self._limits, mode=mode
        )
        try:
            hello = await worker.ask({"do": "hello"}, limit_s=self._limits.build_s)
            baseline = hello.get("state")
            self.walls = dict(worker.walls)
            if confined() and walls.fallen(worker.walls):
                raise CannotJudgeError(walls.why_not_run(worker.walls))
            if self._keep is not None and bare:
                kept_kernels.lay_out(self._keep, worker.folder)
            root = write_sources(self._candidate, worker.folder)
            reply = await worker.ask(
                {
                    "do": "load",
                    "device": self._device,
                    "root": str(root),
                    "file": str(PurePosixPath(self._candidate.entry_file)),
                    "name": self._candidate.entry_function,
                    # Some hold a problem beside the kernel, as they would where they are used.
                    "package": ROOT if _imports_us(self._candidate) else "",
                },
                limit_s=self._limits.build_s,
            )
        except GoneError as gone:
            raise NotLoadedError(f"while it was loaded: {gone}") from None
        raised = _raised(reply, 0)
        if raised is not None:
            raise NotLoadedError(f"{raised.exception} while it was loaded: {raised.message}")
        return worker, _texts(baseline)

    async def _end(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await worker.end()
            worker.close()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            run_now(self._end())
        self._segments.close()


class _Apart(Execution):
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
        self._shared: dict[str, _Shared] = {}
        self._results: dict[str, tuple[_Described, ...]] = {}

    def _beginning(self) -> dict[str, Any]:
        return {"do": "begin"}

    async def _step(self, inputs: MakeInputs, answers: object) -> bool:
        with self._parts.part(type(self._scenario.steps[self._index]).__name__):
            self.records.append(await self._record_of(inputs))
        return True

    async def _record_of(  # noqa: C901, PLR0911, PLR0912  # a line a step
        self, inputs: MakeInputs
    ) -> StepRecord:
        step = self._scenario.steps[self._index]
        done = StepDone(index=self._index)
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
                    return StepRaised(index=self._index, exception="ValueError", message=refused)
                return await self._told(found.forth(slot)) or done
            case Call():
                return await self._call(step)
            case CallOften():
                return await self._call_often(step)
            case ReadResult(result=result):
                return await self._read(result)
            case HashResult(result=result):
                return await self._hash(result)
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
        return _raised(await self._ask(message, fds), self._index)

    def _slot(self, name: str) -> _Shared | StepRaised:
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
        values = dict(inputs(case))
        outputs = []
        if self._candidate.convention is Convention.DESTINATION:
            for spec in self._problem.outputs:
                dtype, shape = DTYPES[spec.dtype.value], shape_of(spec.shape, case.axes)
                filled = torch.full((*shape, dtype.itemsize), 0xFF, dtype=torch.uint8)
                values[spec.name] = filled.view(dtype).reshape(shape)
                outputs.append(spec.name)
        held = self._shared[slot] = _Shared(values, outputs, self._problem.updated)
        place = {"do": "place", "slot": slot, "layout": held.layout, "size": held.size}
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
        raised = _raised(reply, self._index)
        if raised is not None:
            return raised
        found = reply.get("at")
        if not isinstance(found, list) or len(found) != len(held.names):
            raise GoneError(Gone.GARBLED, "arguments that are not where they were laid")
        held.places = [one if isinstance(one, int) else 0 for one in found]
        return StepDone(index=self._index, items=held.described)

    async def _call(self, step: Call) -> StepRecord:
        held = self._slot(step.slot)
        if isinstance(held, StepRaised):
            return held
        self._results.pop(step.result, None)
        message: dict[str, Any] = {
            "do": "call",
            "slot": step.slot,
            "result": step.result,
            "outputs": held.outputs,
        }
        rewritten = held.restore()
        byte = byte_of(step.poison)
        if self._scenario.mode is not Mode.APART and byte is not None:
            message["fill"] = byte
            if held.outputs:
                held.fill_outputs(byte)
                rewritten = True
        if rewritten:
            raised = await self._told(held.forth(step.slot))
            if raised is not None:
                return raised
        reply = await self._ask(message)
        raised = _raised(reply, self._index)
        if raised is not None:
            return raised
        found = reply.get("items")
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
        described = [_described(item, held) for item in found]
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

    async def _call_often(self, step: CallOften) -> StepRecord:
        found: list[Holding] = []
        calls = 0
        for count in spans(step):
            for _ in range(count):
                made = await self._call(Call(slot=step.slot, result=_OFTEN))
                if isinstance(made, StepRaised):
                    return made
            calls += count
            self._results.pop(_OFTEN, None)
            for request in ({"do": "release", "name": _OFTEN}, {"do": "rest"}):
                told = await self._told(request)
                if told is not None:
                    return told
            pid = self._worker.pid
            if pid is not None:
                found.append(holding(pid, calls=calls))
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
        which = [one.number for one in described if one.item.kind == "tensor"]
        return await self._fetch(plausible, {"do": "write", "result": result, "which": which})

    def _seen(self, described: Sequence[_Described]) -> list[torch.Tensor] | None:
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

    async def _hash(self, result: str) -> StepRecord:
        mark = len(self.tensors)
        record = await self._read(result)
        if isinstance(record, StepRaised):
            return record
        made = digest([self.tensors[item.buffer] for item in record.items if item.buffer >= 0])
        del self.tensors[mark:]
        items = tuple(replace(item, buffer=-1) for item in record.items)
        return replace(record, items=items, digest=made)

    async def _inputs_now(self, slot: str, held: _Shared, only: str) -> StepRecord:
        """Return the bytes of the inputs as they are, read from memory that the judge made.

        After them each input as the process has it: what a call made of its shape, say.
        """
        reply = await self._ask({"do": "back", "slot": slot})
        raised = _raised(reply, self._index)
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
                items.append(_described({**one, **found}, held).item)
        return StepDone(index=self._index, items=tuple(items))

    async def _state(self) -> StepRecord:
        """Return what differs from the state before the candidate was loaded."""
        if self._baseline is None:
            what = "there is no state to compare with: this process took no baseline"
            return StepRaised(index=self._index, exception="RuntimeError", message=what)
        reply = await self._ask({"do": "look", "import": STATE, "path": ROOT})
        raised = _raised(reply, self._index)
        if raised is not None:
            return raised
        now = _texts(reply.get("state")) or {}
        if any(name not in now for name in self._baseline if not name.startswith("environment ")):
            raise GoneError(Gone.GARBLED, "a state of the process that is not whole")
        changed = differences(self._baseline, now)
        facts = [(name[:TEXT_MOST], f"{old} -> {new}") for name, (old, new) in changed.items()]
        return StepDone(index=self._index, facts=tuple(facts[:200]))

    def close(self) -> None:
        """Close what was shared with the process."""
        for held in self._shared.values():
            held.close()
        super().close()


class _Described:
    """One value that a call returned, and where it lay as the call ended."""

    def __init__(self, item: ResultItem, *, at: int, number: int) -> None:
        self.item, self.at, self.number = item, at, number
        size = DTYPES[item.dtype].itemsize if item.dtype in DTYPES else 0
        steps = zip(item.shape, item.strides, strict=False)
        empty = 0 in item.shape
        self.span = 0 if empty else size * (1 + sum((n - 1) * step for n, step in steps))

    @property
    def readable(self) -> bool:
        """Whether its bytes can be read where they lie."""
        item = self.item
        if item.dtype not in DTYPES or len(item.shape) != len(item.strides):
            return False
        strided = all(step >= 0 for step in item.strides)
        whole = nbytes(item.dtype, item.shape)
        # An expanded tensor has few bytes for many elements, which are made here.
        return bool(self.at) and strided and 0 < self.span <= _SPREAD * whole


def _described(found: Mapping[str, Any], held: _Shared) -> _Described:
    """Return one described value. Raises GoneError where it is none."""
    name, kind = str(found.get("name", ""))[:200], str(found.get("type_name", ""))[:200]
    number = int(found["number"])
    try:
        match found.get("kind"):
            case "tensor":
                dtype = str(found["dtype"])
                if dtype not in DTYPES:
                    item = ResultItem(kind="other", type_name=kind, dtype=dtype[:80], name=name)
                    return _Described(item, at=0, number=number)
                item = ResultItem(
                    kind="tensor",
                    type_name=kind,
                    dtype=dtype,
                    shape=tuple(int(length) for length in found["shape"]),
                    strides=tuple(int(step) for step in found["strides"]),
                    device=str(found["device"])[:80],
                    aliases=held.sharing(int(found.get("storage", 0))),
                    name=name,
                    requires_grad=found.get("requires_grad") is True,
                    flags=tuple(words for key, words in _FLAGS.items() if found.get(key) is True),
                    storage_bytes=int(found.get("storage_bytes", 0)),
                )
                at = int(found.get("at", 0))
                far = any(abs(step) >= _FAR for step in item.strides)
                if len(item.strides) != len(item.shape) or far or not 0 <= at < 1 << 63:
                    raise ValueError
                if len(item.shape) > _MOST_AXES:
                    raise ValueError
                return _Described(item, at=at, number=number)
            case "scalar":
                item = ResultItem(
                    kind="scalar", type_name=kind, scalar=float(found["scalar"]), name=name
                )
            case "none":
                item = ResultItem(kind="none", type_name="NoneType", name=name)
            case _:
                item = ResultItem(kind="other", type_name=kind, name=name)
        return _Described(item, at=0, number=number)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise GoneError(Gone.GARBLED, "a result that is not described") from None


def _raised(reply: Mapping[str, Any], index: int) -> StepRaised | None:
    found = reply.get("raised")
    if not isinstance(found, dict):
        return None
    exception, message = str(found.get("exception"))[:200], str(found.get("message"))[:4096]
    no_memory = exception in ("MemoryError", "OutOfMemoryError") or (
        exception in ("RuntimeError", "AcceleratorError") and says_no_memory(message)
    )
    return StepRaised(
        index=index,
        exception=exception,
        message=message,
        claim=Claim.NO_MEMORY if no_memory else None,
    )


def _texts(found: object) -> Mapping[str, str] | None:
    if not isinstance(found, dict):
        return None
    return {str(name)[:TEXT_MOST]: str(text)[:TEXT_MOST] for name, text in [*found.items()][:4096]}


class _Shared:
    """One segment of memory that holds the arguments of a call, in the function's order.

    `updated` are those that every call changes.
    """

    def __init__(
        self,
        values: Mapping[str, torch.Tensor | Scalar],
        outputs: list[str],
        updated: Sequence[str] = (),
    ) -> None:
        tensors = {
            name: value.detach().cpu().contiguous()
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }
        offsets, size = aligned_offsets([tensor.nbytes for tensor in tensors.values()])
        self.outputs, self.size, self.names = outputs, max(size, 1), tuple(tensors)
        self.places: list[int] = []  # addresses of the tensors in the process
        self._order = tuple(values)
        self._scalars = {
            name: value for name, value in values.items() if not isinstance(value, torch.Tensor)
        }
        self._like = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        self._places = {
            name: (offset, tensor.nbytes)
            for (name, tensor), offset in zip(tensors.items(), offsets, strict=True)
        }
        self._before = {name: tensors[name].clone() for name in updated}
        self.fd = make_memory("shared", size=self.size)
        for name, tensor in tensors.items():
            self._put(name, tensor)
        self.layout = [
            {
                "dtype": str(tensors[name].dtype).removeprefix("torch."),
                "shape": list(tensors[name].shape),
                "offset": self._places[name][0],
            }
            if name in tensors
            else {"scalar": serial.to_json(value)}
            for name, value in values.items()
        ]
        self.described = tuple(
            ResultItem(
                kind="tensor",
                type_name="torch.Tensor",
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                device=CPU,
                scalar=0.0,
                name=name,
            )
            for name, tensor in tensors.items()
            if name not in outputs
        )

    def _put(self, name: str, tensor: torch.Tensor) -> None:
        _all(os.pwrite, self.fd, host_memory(tensor), self._places[name][0])

    def refill(self, values: Mapping[str, torch.Tensor | Scalar]) -> str:
        """Copy the values of another case into the same memory; return why they do not fit."""
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and name in self._like:
                dtype, shape = self._like[name]
                if value.shape != shape or value.dtype != dtype:
                    return (
                        f"refill of '{name}': {tuple(value.shape)} {value.dtype} does not fit "
                        f"{tuple(shape)} {dtype}; refill with a case of equal shapes"
                    )
                plain = value.detach().cpu().contiguous()
                self._put(name, plain)
                if name in self._before:
                    self._before[name] = plain.clone()
            elif not isinstance(value, torch.Tensor):
                self._scalars[name] = value
        return ""

    def restore(self) -> bool:
        """Put back what every call changes; whether there is anything."""
        for name, tensor in self._before.items():
            self._put(name, tensor)
        return bool(self._before)

    def forth(self, slot: str) -> dict[str, Any]:
        """Return the request that makes what was written here the arguments of `slot`."""
        scalars = [[self._order.index(name), serial.to_json(self._scalars[name])]
                   for name in self._scalars]  # fmt: skip
        return {"do": "forth", "slot": slot, "scalars": scalars}

    def fill_outputs(self, byte: int) -> None:
        """Fill the outputs of a destination-style candidate with one byte."""
        for name in self.outputs:
            offset, size = self._places[name]
            filled = torch.full((size,), byte, dtype=torch.uint8)
            _all(os.pwrite, self.fd, host_memory(filled), offset)

    def sharing(self, storage: int) -> tuple[str, ...]:
        """Return the inputs that lie in the storage at an address."""
        found = zip(self.names, self.places, strict=False)
        return tuple(
            name for name, at in found if at and at == storage and name not in self.outputs
        )

    def inputs(self) -> dict[str, torch.Tensor]:
        """Return the bytes of every input as they are now, uint8."""
        found = {}
        for name, (offset, size) in self._places.items():
            if name not in self.outputs:
                data = torch.empty(size, dtype=torch.uint8)
                _all(lambda fd, part, at: os.preadv(fd, [part], at), self.fd,
                     host_memory(data), offset)  # fmt: skip
                found[name] = data
        return found

    def close(self) -> None:
        """Close the judge's descriptor."""
        os.close(self.fd)


def _all(
    move: Callable[[int, memoryview, int], int], fd: int, memory: memoryview, offset: int
) -> None:
    """Read or write all of `memory` at an offset of a file."""
    done = 0
    while done < len(memory):
        moved = move(fd, memory[done : done + _CHUNK], offset + done)
        if not moved:
            raise GoneError(Gone.GARBLED, "the process cut the memory of its arguments off")
        done += moved


def ended_cleanly(run: Ran) -> bool:
    """Whether a run came to its end without an exception."""
    raised = any(isinstance(record, StepRaised) for record in run.result.records)
    return isinstance(run.result.termination, Finished) and not raised
