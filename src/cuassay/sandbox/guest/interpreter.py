"""Executes the steps of a scenario on a callable, in whatever process it is made in.

The interpreter knows nothing of channels: input and answer tensors are handed to it, tensors
that a Read step sends come back beside the record. What the candidate raises becomes a
StepRaised; SystemExit passes, for it ends the process that the candidate runs in.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from cuassay.model.axes import shape_of
from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem, Scalar
from cuassay.model.reached import OperatorExchange
from cuassay.model.reports import Returned
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    Poison,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Step,
)
from cuassay.model.trace import ResultItem, StepDone, StepRecord
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.callers import streams
from cuassay.sandbox.guest.interface import (
    Around,
    Given,
    InputChangedError,
    Made,
    NoResultError,
    Slot,
)
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.memory.recycling import FreedMemory
from cuassay.sandbox.guest.observe import launch_errors
from cuassay.sandbox.guest.observe.operators import OPERATORS
from cuassay.sandbox.guest.production import Production
from cuassay.sandbox.guest.raised import raised as raised  # who executes steps needs it too


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """A record, and the tensors that its items' `buffer` numbers point into."""

    record: StepRecord
    tensors: tuple[torch.Tensor, ...] = ()


class Interpreter:
    """Runs steps one after another; slots, results and freed addresses live between them."""

    def __init__(
        self,
        call: Callable[..., object],
        problem: Problem,
        *,
        device: Device,
        convention: Convention,
        result_bytes: int = 1 << 62,
        around: Around | None = None,
    ) -> None:
        self._call, self._problem = call, problem
        self._device, self._convention = device, convention
        self._result_bytes = result_bytes
        self._names = tuple(spec.name for spec in problem.outputs)
        self._slots: dict[str, Slot] = {}
        self._results: dict[str, list[tuple[str, object]]] = {}
        self._sources: dict[str, str] = {}  # result -> slot that it was called on
        self._container = ""  # in what the last call returned its outputs
        self._freed = FreedMemory(device)
        self._production = Production(self, around or Around())

    def execute(self, step: Step, index: int, *, cases: Sequence[Case], given: Given) -> Executed:
        """Run one step. Whatever it raises but SystemExit becomes a StepRaised record."""
        started = time.perf_counter()
        try:
            made = self._made(step, cases, given)
        except SystemExit:
            raise
        except BaseException as error:
            return Executed(record=raised(index, error))
        record = StepDone(
            index=index,
            items=made.items,
            digest=made.digest,
            duration_s=time.perf_counter() - started,
            facts=made.facts,
            report=made.report,
        )
        return Executed(record=record, tensors=made.tensors)

    def _made(self, step: Step, cases: Sequence[Case], given: Given) -> Made:
        match step:
            case Allocate():
                return self._allocate(step, cases[step.case], given)
            case Refill():
                return self._refill(step, cases[step.case], given)
            case Call():
                return self._call_candidate(step, given)
            case ReadResult():
                return self._read(step.result)
            case ReadInputs():
                wanted = {
                    name: value
                    for name, value in self.slot(step.slot).tensors.items()
                    if step.only in ("", name)
                }
                tensors = {name: items.base_bytes(value) for name, value in wanted.items()}
                found = tuple(
                    replace(items.describe(tensor, name=name, inputs={}), buffer=number)
                    for number, (name, tensor) in enumerate(tensors.items())
                )
                now = tuple(
                    items.describe(value, name=name, inputs={}) for name, value in wanted.items()
                )
                return Made(items=found + now, tensors=tuple(tensors.values()))
            case Release():
                slot = self._slots.pop(step.name, None)
                held = self._results.pop(step.name, None)
                for _, value in held or ():
                    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                        with contextlib.suppress(RuntimeError):  # some subclasses have no storage
                            self._freed.note(value)
                value = held = None
                if slot is not None:
                    tensors = slot.tensors
                    slot.values.clear()
                    self._freed.release_inputs(tensors)
                return Made()
            case PoisonFreed():
                recycled, total = self._freed.poison(step.pattern)
                counts = (
                    ResultItem(
                        kind="scalar", type_name="int", name="recycled", scalar=float(recycled)
                    ),
                    ResultItem(kind="scalar", type_name="int", name="freed", scalar=float(total)),
                )
                return Made(items=counts)
            case HashResult():
                read = self._read(step.result)
                plain = tuple(replace(item, buffer=-1) for item in read.items)
                return Made(items=plain, digest=items.digest(read.tensors))
            case _:
                return self._production.execute(step, cases, given)

    def _allocate(self, step: Allocate, case: Case, given: Given) -> Made:
        """Make the inputs; an item's scalar is 1 where the address was freed before."""
        values: dict[str, torch.Tensor | Scalar] = {}
        recycled = set()
        for name, value in (given.inputs or {}).items():
            values[name] = value
            if isinstance(value, torch.Tensor):
                held = self._freed.reuse(value)
                if step.read_only and not self._device.on_gpu:
                    values[name] = placement.read_only_copy(value)
                elif held is not None:
                    recycled.add(name)
                    placement.copy_into(held, value)
                    values[name] = held
                elif not given.owned:
                    values[name] = placement.own_copy(value, self._device, label=name)
        self._slots[step.slot] = slot = Slot(case, values)
        for name in () if step.read_only else self._problem.updated:
            slot.before[name] = slot.tensors[name].detach().clone()
        self._settle()
        made = tuple(
            replace(items.describe(tensor, name=name, inputs={}), scalar=float(name in recycled))
            for name, tensor in slot.tensors.items()
        )
        return Made(items=made)

    def _refill(self, step: Refill, case: Case, given: Given) -> Made:
        slot = self.slot(step.slot)
        for name, value in (given.inputs or {}).items():
            held = slot.tensors.get(name)
            if (
                held is not None
                and isinstance(value, torch.Tensor)
                and (held.shape, held.dtype) != (value.shape, value.dtype)
            ):
                # The judge refills with equal shapes alone.
                raise InputChangedError(
                    f"an earlier call changed input '{name}': it has shape "
                    f"{list(held.shape)} and dtype {held.dtype}, the caller made it "
                    f"{list(value.shape)} and {value.dtype}"
                )
            slot.put(name, value)
        slot.case = case
        self._settle()
        return Made()

    @property
    def device(self) -> Device:
        """cpu or cuda."""
        return self._device

    @property
    def candidate(self) -> Callable[..., object]:
        """The candidate itself, for callers that surround it in ways of their own."""
        return self._call

    @property
    def convention(self) -> Convention:
        """Whether the candidate returns its outputs or fills what it is given."""
        return self._convention

    @property
    def problem(self) -> Problem:
        """The operator, as far as the worker knows it."""
        return self._problem

    def _call_candidate(self, step: Call, given: Given) -> Made:
        slot = self.slot(step.slot)
        self._results.pop(step.result, None)
        outputs = self.destinations(step.slot, step.poison, given.answers)
        # Leave free blocks of the outputs' sizes for poison to lie in; settle the inputs
        byte = placement.byte_of(step.poison)
        shapes = [(shape, dtype) for _, shape, dtype in self._output_shapes(slot)]
        if not self._device.on_gpu:
            if byte is not None:
                placement.poison_small_blocks(shapes, byte)
        else:
            if byte is not None and self._convention is Convention.RETURNS:
                placement.reserve_cuda_blocks(shapes)
            torch.cuda.synchronize()
        with placement.poisoned_memory(step.poison, self._device, given.answers):
            launch_errors.clear(self._device)
            wanted = step.exchange
            with (
                OPERATORS.exchanged(wanted)
                if isinstance(wanted, OperatorExchange)
                else contextlib.nullcontext()
            ) as mode:
                held = streams.called_as(step, slot, lambda: self.invoke(step.slot, outputs))
            launch_errors.raise_pending(self._device)
            if self._device.on_gpu:
                torch.cuda.synchronize()
        if mode is not None and wanted != OperatorExchange() and not mode.happened:
            return Made()
        self.hold(step.result, step.slot, held)
        described = tuple(self._describe(step.result))
        if self._convention is not Convention.RETURNS:
            return Made(items=described)
        return Made(items=described, report=Returned(container=self._container))

    def invoke(
        self, slot: str, outputs: Sequence[tuple[str, torch.Tensor]]
    ) -> list[tuple[str, object]]:
        """Call the candidate on a slot and wait for nothing; return its outputs by name.

        Inputs that every call changes hold again what they were filled with. What it leaves in
        them is copied, so that it can be held as other results are.
        """
        filled = self.slot(slot)
        updated = {name: filled.tensors[name] for name in filled.before}
        for name, tensor in updated.items():
            placement.copy_into(tensor, filled.before[name])
        arguments = list(filled.values.values())
        for notice in self._production.around.outgoing:
            notice(outputs)
        with self._production.around.call():
            returned = self._call(*arguments, *(tensor for _, tensor in outputs))
        if self._convention is Convention.RETURNS:
            self._container = items.container_of(returned)
            found = items.returned_items(returned, self._names)
            inputs = {id(tensor): tensor for tensor in updated.values()}
            return [
                (name, inputs[id(value)].clone() if id(value) in inputs else value)
                for name, value in found
            ]
        return list(outputs)

    def hold(self, result: str, slot: str, held: list[tuple[str, object]]) -> None:
        """Keep what a call on `slot` returned under a result's name."""
        for _, value in held:
            items.unshadowed(value)
        self._results[result] = held
        self._sources[result] = slot
        placement.name_all(held)

    def destinations(
        self, slot: str, poison: Poison, answers: Sequence[torch.Tensor] = ()
    ) -> list[tuple[str, torch.Tensor]]:
        """Return filled outputs for a destination-style candidate; none for others."""
        filled = self.slot(slot)
        if self._convention is Convention.RETURNS:
            return []
        made = []
        for number, (name, shape, dtype) in enumerate(self._output_shapes(filled)):
            tensor = placement.allocate(shape, dtype, filled.device(self._device), label=name)
            answer = answers[number] if number < len(answers) else None
            placement.fill(tensor, poison, answer)
            made.append((name, tensor))
        return made

    def _output_shapes(self, slot: Slot) -> list[tuple[str, tuple[int, ...], torch.dtype]]:
        sizes = slot.case.axes
        return [
            (spec.name, shape_of(spec.shape, sizes), items.DTYPES[spec.dtype.value])
            for spec in self._problem.outputs
        ]

    def _settle(self) -> None:
        """Wait for copies out of memory that the judge may write again after the reply."""
        if self._device.on_gpu:
            torch.cuda.synchronize()

    def _describe(self, result: str) -> list[ResultItem]:
        slot = self._slots.get(self._sources.get(result, ""))
        inputs = slot.tensors if slot else {}
        held = self.result(result)
        found = [items.describe(value, name=name, inputs=inputs) for name, value in held]
        return items.with_overlaps(found, [items.address(value) for _, value in held])

    def _read(self, result: str) -> Made:
        found: list[ResultItem] = []
        tensors: list[torch.Tensor] = []
        room = self._result_bytes
        described = self._describe(result)
        for item, (_, value) in zip(described, self.result(result), strict=True):
            size = items.itemsize(item.dtype) if item.kind == "tensor" else 0
            for length in item.shape:
                size *= length
            if item.kind == "tensor" and isinstance(value, torch.Tensor) and size <= room:
                room -= size
                item = replace(item, buffer=len(tensors))
                tensors.append(items.plain_tensor(value))
            found.append(item)
        return Made(items=tuple(found), tensors=tuple(tensors))

    def slot(self, name: str) -> Slot:
        """Return a slot. Raises NoResultError."""
        if name not in self._slots:
            raise NoResultError(f"slot '{name}' holds nothing: its Allocate step is missing")
        return self._slots[name]

    def result(self, name: str) -> list[tuple[str, object]]:
        """Return what is held under a result. Raises NoResultError."""
        if name not in self._results:
            raise NoResultError(f"result '{name}' is not there: its Call step raised")
        return self._results[name]
