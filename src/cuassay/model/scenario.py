"""Everything that happens to a candidate in one process, as data: the reproducer.

A scenario is a list of typed steps over named slots. A slot holds the input tensors of one
case; a result name holds what one call returned. The worker interprets the steps in order,
the judge looks at what came back. Serialised by `cuassay.model.serial`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from cuassay.model.case import Case
from cuassay.model.reached import Exchange, OperatorExchange, Spoiled
from cuassay.model.relation import Relation
from cuassay.model.step import CallOfSlot, FillOfSlot, OfResult, OfSlot, StepBase
from cuassay.model.steps import (
    Arrange,
    Backward,
    CallInto,
    CallOften,
    CallRanks,
    CallVaried,
    Capture,
    CompiledCall,
    Configurations,
    Disarm,
    Inspect,
    KeepMemory,
    Misuse,
    Mode,
    OpCheck,
    Outline,
    Overwrite,
    ReadGuards,
    ReadLaunches,
    ReadRecording,
    ReadSlices,
    ReadState,
    RecordLaunches,
    Repeat,
    Replay,
    Serve,
    StreamCall,
    Time,
    Together,
    TraceCall,
)


class Poison(enum.StrEnum):
    """What fresh memory holds before the candidate sees it."""

    NONE = "none"
    ZEROS = "zeros"
    NAN = "nan"  # NaN in floating outputs, 0xFF bytes elsewhere
    ONES = "0xff"
    NEGATED = "negated"  # minus the right answer, sent by the judge
    RIGHT = "right"  # the right answer, sent by the judge (finds kernels that write nothing)


class Autograd(enum.StrEnum):
    """Whether a call records what it takes to differentiate."""

    ON = "on"
    OFF = "torch.no_grad()"
    INFERENCE = "torch.inference_mode()"  # on tensors that were made there


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate(FillOfSlot):
    """Make the input tensors of `case` (an index into Scenario.cases) in `slot`.

    With `read_only` they lie in memory of the host that the process must not write.
    """

    words: ClassVar = "its inputs were made"

    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill(FillOfSlot):
    """Copy the values of `case` into the existing storage of `slot`, in place.

    Scalars are replaced too. The case must have the shapes of the one in the slot.
    """

    words: ClassVar = "its inputs were refilled in place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(CallOfSlot):
    """Call the candidate on `slot`; hold what it returns (or its outputs) under `result`.

    Destination-style outputs, and memory that the candidate allocates where the worker can
    reach it, are filled with `poison` first. `stream` names the stream that is current
    meanwhile, empty the default one; with `thread` the call is made from a new thread; with
    `gradients` the floating inputs require gradients, with `parameters` they are parameters of a
    module, frozen unless `autograd` is Autograd.ON; it is made under `autograd`, and with
    `autocast` under torch.autocast too. The host waits for the call in any case. With `exchange`
    another value takes the place of what a part of its code comes to, or a tensor that it keeps is
    spoiled; a call in which that did not happen holds nothing. Which lines run is noted where it is
    `noted`, which takes longer than a small call.
    """

    words: ClassVar = "being called"

    poison: Poison = Poison.NAN
    stream: str = ""
    thread: bool = False
    gradients: bool = False
    autograd: Autograd = Autograd.ON
    parameters: bool = False
    autocast: bool = False
    exchange: Exchange | Spoiled | OperatorExchange | None = None
    noted: bool = True

    @property
    def wants_answers(self) -> str:
        """The slot whose right answers fill the memory first, or ''."""
        return self.slot if self.poison in (Poison.NEGATED, Poison.RIGHT) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult(OfResult):
    """Send the tensors held under `result` to the judge, as they are now."""

    words: ClassVar = "its result was read"
    sends: ClassVar = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInputs(OfSlot):
    """Send the whole base storage of every input of `slot` to the judge, as it is now.

    With `only`, that of the one input.
    """

    words: ClassVar = "its inputs were read back"
    sends: ClassVar = True

    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(StepBase):
    """Drop `name` (a slot or a result) so that its memory can be reused."""

    words: ClassVar = "memory was released"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonFreed(StepBase):
    """Fill the memory that earlier Release steps freed with a pattern, then free it again."""

    words: ClassVar = "memory was released"

    pattern: Poison = Poison.NAN


@dataclass(frozen=True, slots=True, kw_only=True)
class HashResult(OfResult):
    """Send a digest of the bytes under `result`: for many repeats, where bytes are dear."""

    words: ClassVar = "its result was read"


Plain: TypeAlias = (
    Allocate | Refill | Call | ReadResult | ReadInputs | Release | PoisonFreed | HashResult
)
Production: TypeAlias = (
    Arrange
    | CallInto
    | Backward
    | StreamCall
    | Together
    | Capture
    | Replay
    | Repeat
    | CallOften
    | Serve
    | CallRanks
    | CallVaried
    | KeepMemory
    | Misuse
    | Overwrite
    | ReadSlices
    | ReadState
    | ReadGuards
    | ReadLaunches
    | RecordLaunches
    | ReadRecording
    | Disarm
    | Time
    | Inspect
    | OpCheck
    | CompiledCall
    | Configurations
    | TraceCall
    | Outline
)
Step: TypeAlias = Plain | Production


def call_steps(
    slot: str, case: int, result: str, *, poison: Poison = Poison.NAN
) -> tuple[Step, ...]:
    """Return steps that allocate a case, call on it once and read the result."""
    return (
        Allocate(slot=slot, case=case),
        Call(slot=slot, result=result, poison=poison),
        ReadResult(result=result),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Steps over cases. `timeout_s` bounds one step, `label` says in words what is tried.

    `relation` ties the answers to the cases together, where that is what is judged. `mode` is
    how its process was started; with `busy` another process keeps the GPU busy meanwhile.
    With `at_once` it makes a slot, calls and reads, each under names of its own, again and again: a
    process apart is asked for all of it without a wait in between.
    """

    label: str
    cases: tuple[Case, ...]
    steps: tuple[Step, ...]
    timeout_s: float = 60.0
    fresh: bool = False  # True: run in a process that ran no other scenario before
    relation: Relation | None = None
    mode: Mode = Mode.PLAIN
    busy: bool = False
    at_once: bool = False

    @property
    def is_concurrent(self) -> bool:
        """Whether a step lets work on several streams meet on the GPU.

        After every other step the host waits for all of them, so there only a candidate that makes
        streams itself can have two of them busy.
        """
        return self.busy or any(
            isinstance(step, StreamCall | Together | Repeat) for step in self.steps
        )

    @property
    def is_recorded(self) -> bool:
        """Whether its launches are recorded to be executed again, or only its code is followed."""
        return any(isinstance(step, RecordLaunches | Outline) for step in self.steps)

    @property
    def serves(self) -> bool:
        """Whether its calls are those of a server: on one set of tensors, refilled in between."""
        return any(isinstance(step, Serve) and step.values for step in self.steps)

    @property
    def reads_results(self) -> bool:
        """Whether a step brings what a call returned to the judge, or a digest of it."""
        return any(step.sends or isinstance(step, HashResult) for step in self.steps)
