"""Scenarios in processes that hold nothing of cuassay: this side owns memory, order and reading.

The guest (`guest.apart`) loads a function and calls it. Where its inputs lie, what they were,
what they are after a call, and what a result is are all read here, from memory that the judge
made and shares with it: on the CPU the bytes that the candidate saw, on a GPU their copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import torch

from cuassay.build.sources import write_sources
from cuassay.model import serial
from cuassay.model.axes import shape_of
from cuassay.model.candidate import Candidate, Convention
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar
from cuassay.model.scenario import Allocate, Call, ReadInputs, ReadResult, Release, Scenario
from cuassay.model.trace import ResultItem, ScenarioResult, StepDone, StepRaised, StepRecord
from cuassay.sandbox.guest.items import DTYPES, host_memory
from cuassay.sandbox.guest.transport import place
from cuassay.sandbox.host.execution import Execution
from cuassay.sandbox.host.handle import GoneError, WorkerHandle
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.segments import Segments
from cuassay.sandbox.limits import Limits
from cuassay.sandbox.local import MakeInputs
from cuassay.sandbox.ran import Ran

_CHUNK = 1 << 30


def run_apart(
    scenario: Scenario,
    inputs: MakeInputs,
    *,
    candidate: Candidate,
    problem: Problem,
    device: str,
    nursery: Nursery,
    limits: Limits,
) -> Ran:
    """Run a scenario of Allocate, Call, ReadResult, ReadInputs and Release in a new process.

    `candidate` is a Python function. Raises NurseryError where no process can be had.
    """
    nursery.wait_ready()
    worker = WorkerHandle(nursery.plain, cache=nursery.folder, limits=limits)
    segments = Segments(device)
    segments.use_bytes("")
    execution = _Apart(
        worker, segments, scenario, limits=limits, problem=problem, candidate=candidate
    )
    try:
        end = execution.run_on(device, inputs)
        text = execution.text if not execution.healthy else worker.take_output()
        result = ScenarioResult(records=tuple(execution.records), termination=end, output_text=text)
        return Ran(result, execution.tensors)
    finally:
        worker.end()
        worker.close()
        execution.close()
        segments.close()


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
        candidate: Candidate,
    ) -> None:
        super().__init__(worker, segments, scenario, limits=limits, problem=problem)
        self._candidate = candidate
        self._device = ""
        self._shared: dict[str, _Shared] = {}

    def run_on(self, device: str, inputs: MakeInputs) -> Any:
        """Load the candidate and execute every step; return how the process ended."""
        self._device = device
        return self.run(inputs, None)

    def _begin(self) -> None:
        root = write_sources(self._candidate, self._worker.folder)
        reply = self._ask(
            {
                "do": "load",
                "device": self._device,
                "root": str(root),
                "file": str(PurePosixPath(self._candidate.entry_file)),
                "name": self._candidate.entry_function,
            }
        )
        raised = self._raised(reply)
        if raised is not None:
            raise GoneError("garbled", f"{raised.exception} while it was loaded: {raised.message}")

    def _step(self, inputs: MakeInputs, answers: object) -> bool:
        self.records.append(self._record_of(inputs))
        return True

    def _record_of(self, inputs: MakeInputs) -> StepRecord:
        step = self._scenario.steps[self._index]
        done = StepDone(index=self._index)
        match step:
            case Allocate(slot=slot, case=case):
                self._lay(slot, self._scenario.cases[case], inputs)
                held = self._shared[slot]
                reply = self._ask(
                    {"do": "place", "slot": slot, "layout": held.layout, "size": held.size},
                    (held.fd,),
                )
                return self._raised(reply) or done
            case Call(slot=slot, result=result):
                names = self._shared[slot].outputs
                reply = self._ask({"do": "call", "slot": slot, "result": result, "outputs": names})
                return self._raised(reply) or done
            case ReadResult(result=result):
                return self._read(result)
            case ReadInputs(slot=slot):
                reply = self._ask({"do": "back", "slot": slot})
                return self._raised(reply) or self._inputs_now(self._shared[slot])
            case Release():
                return self._raised(self._ask({"do": "release"})) or done
            case _:
                raise AssertionError(f"{type(step).__name__} is no step of a process apart")

    def _raised(self, reply: Mapping[str, Any]) -> StepRaised | None:
        found = reply.get("raised")
        if not isinstance(found, dict):
            return None
        return StepRaised(
            index=self._index,
            exception=str(found.get("exception"))[:200],
            message=str(found.get("message"))[:4096],
            out_of_memory=found.get("exception") in ("MemoryError", "OutOfMemoryError"),
        )

    def _lay(self, slot: str, case: Case, inputs: MakeInputs) -> None:
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
        self._shared[slot] = _Shared(values, outputs)

    def _inputs_now(self, held: _Shared) -> StepDone:
        """Return the bytes of the inputs as they are, read from memory that the judge made."""
        items: list[ResultItem] = []
        for name, data in held.inputs().items():
            items.append(
                ResultItem(
                    kind="tensor",
                    type_name="torch.Tensor",
                    dtype="uint8",
                    shape=(data.numel(),),
                    strides=(1,),
                    device="cpu",
                    buffer=len(self.tensors),
                    name=name,
                )
            )
            self.tensors.append(data)
        return StepDone(index=self._index, items=tuple(items))

    def _read(self, result: str) -> StepRecord:
        reply = self._ask({"do": "describe", "result": result})
        raised = self._raised(reply)
        if raised is not None:
            return raised
        numbered: list[ResultItem] = []
        for found in self._listed(reply):
            item = self._item(found)
            sent = sum(one.buffer >= 0 for one in numbered)
            numbered.append(replace(item, buffer=sent) if item.kind == "tensor" else item)
        record = StepDone(index=self._index, items=tuple(numbered))
        self._check_items(record)
        plausible = self._of_plausible_size(record)
        if not isinstance(plausible, StepDone) or not any(i.buffer >= 0 for i in numbered):
            return plausible
        return self._fetch(plausible, {"do": "write", "result": result})

    def _listed(self, reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = reply.get("items")
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise GoneError("garbled", "a result that is not described")
        return found[:256]

    def _item(self, found: Mapping[str, Any]) -> ResultItem:
        """Return one described value. Raises GoneError where it is none."""
        names = [spec.name for spec in self._problem.outputs]
        name = str(found.get("name", ""))[:200] or (names[0] if len(names) == 1 else "")
        kind = str(found.get("type_name", ""))[:200]
        try:
            match found.get("kind"):
                case "tensor":
                    shape = tuple(int(length) for length in found["shape"])
                    dtype = str(found["dtype"])
                    if dtype not in DTYPES:
                        return ResultItem(kind="other", type_name=kind, name=name)
                    return ResultItem(
                        kind="tensor", type_name=kind, dtype=dtype, shape=shape, name=name
                    )
                case "scalar":
                    number = float(found["scalar"])
                    return ResultItem(kind="scalar", type_name=kind, scalar=number, name=name)
                case "none":
                    return ResultItem(kind="none", type_name="NoneType", name=name)
                case _:
                    return ResultItem(kind="other", type_name=kind, name=name)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise GoneError("garbled", "a result that is not described") from None

    def close(self) -> None:
        """Close what was shared with the process."""
        for held in self._shared.values():
            held.close()
        super().close()


class _Shared:
    """One segment of memory that holds the arguments of a call, in the function's order."""

    def __init__(self, values: Mapping[str, torch.Tensor | Scalar], outputs: list[str]) -> None:
        tensors = {
            name: value.detach().cpu().contiguous()
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }
        offsets, size = place([tensor.nbytes for tensor in tensors.values()])
        self.outputs, self.size = outputs, max(size, 1)
        self._places = {
            name: (offset, tensor.nbytes)
            for (name, tensor), offset in zip(tensors.items(), offsets, strict=True)
        }
        self.fd = os.memfd_create("shared", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        for name, tensor in tensors.items():
            _all(os.pwrite, self.fd, host_memory(tensor), self._places[name][0])
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
            raise GoneError("garbled", "the process cut the memory of its arguments off")
        done += moved
