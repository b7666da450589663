"""What a worker reports of a scenario: structure and untrusted text, never judgements.

Tensor bytes travel beside these records (shared memory or device memory) and are reached
through `ResultItem.buffer`, an opaque key that the judge's worker client resolves.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from cuassay.model.reports import Report
from cuassay.model.step import StepBase

if TYPE_CHECKING:
    from cuassay.model.scenario import Scenario

_Step = TypeVar("_Step", bound=StepBase)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultItem:
    """One thing that a call returned, or one output or input tensor as it is now.

    `kind` is tensor, scalar, none or other; `type_name` the exact Python type. `aliases`
    names inputs whose storage this tensor shares, `overlaps` the positions of other outputs of the
    call that have a byte of this tensor. `buffer` is -1 where no bytes were sent: of an
    input it is then the tensor itself that is described, not the bytes behind it. `flags` name
    what makes its values others than those in memory; `storage_bytes` is the size of the memory
    that it keeps alive.
    """

    kind: str
    type_name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    device: str = ""
    aliases: tuple[str, ...] = ()
    overlaps: tuple[int, ...] = ()
    scalar: float | None = None
    buffer: int = -1
    name: str = ""
    requires_grad: bool = False
    flags: tuple[str, ...] = ()
    storage_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """The step ended normally. `items` is filled by Read steps, `structure` by Call.

    `facts` and `report` are what the worker says of it, untrusted; `duration_s` is measured by
    the judge where the step is a Time, else by the worker.
    """

    index: int
    items: tuple[ResultItem, ...] = ()
    digest: str = ""
    duration_s: float = 0.0
    facts: tuple[tuple[str, str], ...] = ()
    report: Report | None = None


class Claim(enum.StrEnum):
    """What the candidate's process says that an exception is, by its class: nobody else saw it."""

    NO_MEMORY = "no memory"
    NO_TOOL = "no tool"  # a compiler, device or package is missing, or the disk is full
    UNCOVERED = "uncovered"  # a kernel that the PTX machine does not cover
    LAUNCH = "launch"  # a launch failed, and the candidate did not look
    BACKWARD = "backward"  # its own derivative raised
    INPUT_CHANGED = "input changed"  # a tensor of the caller's takes no new values any more


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRaised:
    """The candidate raised: exception type, message and traceback are untrusted text.

    `frames` are the candidate's own lines on the way to it, as (file, line), outermost first.
    `ranks` are those of a call that wait for one another: each, and what it does.
    """

    index: int
    exception: str
    message: str
    traceback: str = ""
    claim: Claim | None = None
    frames: tuple[tuple[str, int], ...] = ()
    ranks: tuple[tuple[int, str], ...] = ()


StepRecord: TypeAlias = StepDone | StepRaised


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Every step has a record."""


LOST_CHANNEL = 71  # exit code of a worker without a judge; says nothing of why


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The process ended by itself in step `index` (os._exit, sys.exit)."""

    index: int
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The process died of a signal in step `index` (segmentation fault, abort, limits)."""

    index: int
    signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """Step `index` did not end within `limit_s`; the process group was killed.

    With `idle` it was killed then because it had used no processor in all that time.
    """

    index: int
    limit_s: float
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbled:
    """Something wrote what the protocol does not allow to the result channel."""

    index: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flooded:
    """The candidate printed more than any kernel has to say."""

    index: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailed:
    """The candidate did not build or import; `log` is untrusted text.

    `frames` are its own lines on the way to the error, as (file, line), outermost first.
    `out_of_memory`: its process says that memory ran out, which nobody else saw.
    """

    what: str
    log: str
    frames: tuple[tuple[str, int], ...] = ()
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMissing:
    """A compiler or device that the build needs is not there: no verdict follows from it."""

    what: str


Termination: TypeAlias = (
    Finished | Exited | Killed | TimedOut | Garbled | Flooded | BuildFailed | ToolMissing
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """Records of the steps that ran, how the process ended, and what it printed (capped)."""

    records: tuple[StepRecord, ...]
    termination: Termination
    output_text: str = ""
    build_s: float = 0.0
    build_cached: bool = False
    duration_s: float = 0.0


def done_steps(
    scenario: Scenario, result: ScenarioResult, kind: type[_Step]
) -> list[tuple[_Step, StepDone]]:
    """Return the steps of a kind that ended normally, in order, each with its record."""
    pairs = zip(scenario.steps, result.records, strict=False)
    return [(s, r) for s, r in pairs if isinstance(s, kind) and isinstance(r, StepDone)]
