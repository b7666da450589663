"""What the modules that execute production steps see of the interpreter that runs a scenario."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem, Scalar
from cuassay.model.reports import Report
from cuassay.model.scenario import Poison
from cuassay.model.trace import ResultItem, StepRaised
from cuassay.sandbox.guest.memory import placement

if TYPE_CHECKING:
    from cuassay.build.recording.recorder import LaunchRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the judge hands over for one step: values of a case, and right answers of it.

    Tensors are only read, and only while the step runs. `answers` serves Call steps whose
    poison is NEGATED or RIGHT. With `owned` the tensors were made for this step alone, so
    that Allocate keeps them instead of copying.
    """

    inputs: Mapping[str, torch.Tensor | Scalar] | None = None
    owned: bool = False
    answers: Sequence[torch.Tensor] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a step gives back: items, the tensors behind their buffers, and words on them."""

    items: tuple[ResultItem, ...] = ()
    tensors: tuple[torch.Tensor, ...] = ()
    digest: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    report: Report | None = None


@dataclass(slots=True)
class Slot:
    """The case in a slot and its values, in the order of the problem's inputs.

    `before` are copies of the inputs that every call changes, as they were filled.
    """

    case: Case
    values: dict[str, torch.Tensor | Scalar]
    before: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The inputs that are tensors."""
        return {k: v for k, v in self.values.items() if isinstance(v, torch.Tensor)}

    def device(self, usual: Device) -> Device:
        """Return where its outputs belong: another GPU where its tensors lie, else `usual`."""
        numbers = {tensor.device.index for tensor in self.tensors.values() if tensor.is_cuda}
        moved = len(numbers) == 1 and numbers != {usual.number or 0}
        return Device(f"cuda:{numbers.pop()}") if moved else usual

    def put(self, name: str, value: torch.Tensor | Scalar) -> None:
        """Copy a value into the tensor that an input is; replace what is no tensor."""
        held = self.values.get(name)
        if isinstance(held, torch.Tensor) and isinstance(value, torch.Tensor):
            placement.copy_into(held, value)
            if name in self.before:
                placement.copy_into(self.before[name], value)
        else:
            self.values[name] = value


class InputChangedError(Exception):
    """A tensor of the caller's is no longer what it was made as: an earlier call changed it."""


class NoResultError(Exception):
    """A result or slot is missing since an earlier step raised."""


class RankRaisedError(Exception):
    """A rank of a call has raised, or its process has ended: `record` says what."""

    def __init__(self, rank: int, record: StepRaised) -> None:
        self.rank, self.record = rank, record
        super().__init__(f"on rank {rank}: {record.message}")


class RanksStuckError(Exception):
    """The ranks of a call wait for one another, or what they call does not fit.

    The message says who waits for whom; `ranks` has it by rank, where each one's is known.
    """

    def __init__(self, message: str, ranks: tuple[tuple[int, str], ...] = ()) -> None:
        self.ranks = ranks
        super().__init__(message or "; ".join(f"rank {rank} {does}" for rank, does in ranks))


@dataclass(slots=True)
class Around:
    """What surrounds every call of the candidate in this process.

    `entered` are context managers to call it in, by name; `baseline` is the process-wide state
    from before its import, as `state_snapshot.snapshot` returns it; `guards` the allocator with
    guard zones of a process in guarded mode (None: guards are made when first asked for);
    `untraceable` why torch.compile and opcheck are not for this candidate here, `bound` why it
    stays on the device that it was built for; `kernels` the names of the GPU kernels that its
    sources define; `outgoing` is told the outputs that a call is about to be given; `recorder`
    keeps its launches on a GPU.
    """

    entered: dict[str, Callable[[], AbstractContextManager[object]]] = field(default_factory=dict)
    baseline: Mapping[str, str] | None = None
    guards: object | None = None
    untraceable: str = ""
    bound: str = ""
    outgoing: list[Callable[[Sequence[tuple[str, torch.Tensor]]], None]] = field(
        default_factory=list
    )
    recorder: LaunchRecorder | None = None
    kernels: tuple[str, ...] = ()

    def call(self) -> contextlib.ExitStack:
        """Return a context manager to call the candidate in."""
        stack = contextlib.ExitStack()
        for manager in self.entered.values():
            stack.enter_context(manager())
        return stack


class Host(Protocol):
    """The interpreter's side: slots, results, calls."""

    @property
    def device(self) -> Device:
        """cpu or cuda."""

    @property
    def candidate(self) -> Callable[..., object]:
        """The candidate itself, for callers that surround it in ways of their own."""

    @property
    def problem(self) -> Problem:
        """The operator, as far as the worker knows it."""

    @property
    def convention(self) -> Convention:
        """Whether the candidate returns its outputs or fills what it is given."""

    def slot(self, name: str) -> Slot:
        """Return a slot. Raises NoResultError."""

    def result(self, name: str) -> list[tuple[str, object]]:
        """Return what is held under a result. Raises NoResultError."""

    def destinations(
        self, slot: str, poison: Poison, answers: Sequence[torch.Tensor] = ()
    ) -> list[tuple[str, torch.Tensor]]:
        """Return filled outputs for a destination-style candidate; none for others."""

    def invoke(
        self, slot: str, outputs: Sequence[tuple[str, torch.Tensor]]
    ) -> list[tuple[str, object]]:
        """Call the candidate on a slot and wait for nothing; return its outputs by name."""

    def hold(self, result: str, slot: str, held: list[tuple[str, object]]) -> None:
        """Keep what a call on `slot` returned under a result's name."""
