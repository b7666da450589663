"""Everything that happens to a candidate in one process, as data: the reproducer.

A scenario is a list of typed steps over named slots. A slot holds the input tensors of one
case; a result name holds what one call returned. The worker interprets the steps in order,
the judge looks at what came back. Serialised by `cuassay.model.serial`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from cuassay.model.case import Case
from cuassay.model.relation import Relation
from cuassay.model.steps import (
    Arrange,
    Backward,
    CallInto,
    Capture,
    CompiledCall,
    Configurations,
    Disarm,
    Inspect,
    Mode,
    OpCheck,
    Overwrite,
    ReadGuards,
    ReadLaunches,
    ReadRecording,
    ReadSlices,
    ReadState,
    RecordLaunches,
    Repeat,
    Replay,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Make the input tensors of `case` (an index into Scenario.cases) in `slot`."""

    slot: str
    case: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """Copy the values of `case` into the existing storage of `slot`, in place.

    Scalars are replaced too. The case must have the shapes of the one in the slot.
    """

    slot: str
    case: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call the candidate on `slot`; hold what it returns (or its outputs) under `result`.

    Destination-style outputs, and memory that the candidate allocates where the worker can
    reach it, are filled with `poison` first. `stream` names the stream that is current
    meanwhile, empty the default one; with `thread` the call is made from a new thread; with
    `gradients` the floating inputs require gradients. The host waits for the call in any case.
    """

    slot: str
    result: str
    poison: Poison = Poison.NAN
    stream: str = ""
    thread: bool = False
    gradients: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Send the tensors held under `result` to the judge, as they are now."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInputs:
    """Send the whole base storage of every input of `slot` to the judge, as it is now."""

    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Drop `name` (a slot or a result) so that its memory can be reused."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonFreed:
    """Fill the memory that earlier Release steps freed with a pattern, then free it again."""

    pattern: Poison = Poison.NAN


@dataclass(frozen=True, slots=True, kw_only=True)
class HashResult:
    """Send a digest of the bytes under `result`: for many repeats, where bytes are dear."""

    result: str


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
)
Step: TypeAlias = Plain | Production


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Steps over cases. `timeout_s` bounds one step, `label` says in words what is tried.

    `relation` ties the answers to the cases together, where that is what is judged. `mode` is
    how its process was started; with `busy` another process keeps the GPU busy meanwhile.
    """

    label: str
    cases: tuple[Case, ...]
    steps: tuple[Step, ...]
    timeout_s: float = 60.0
    fresh: bool = False  # True: run in a process that ran no other scenario before
    relation: Relation | None = None
    mode: Mode = Mode.PLAIN
    busy: bool = False
