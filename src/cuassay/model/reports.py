"""What a step reports beside tensors, by type: claims of the candidate's process, unproven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """An Arrange or CallInto: the tensors that cannot lie as the step asks, each with why."""

    impossible: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """A Repeat: how often it called, and how often each result came that it sends, in order.

    `pauses` are the kernels with the number of places where they had pauses; `refused` says why
    a kernel could have none.
    """

    calls: int
    counts: tuple[int, ...]
    pauses: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differentiated:
    """A Backward: the outputs that carry a gradient, or why it did nothing (`passed_over`).

    `own` says that the derivative is the candidate's own; `written` names what the call or its
    backward pass wrote to: inputs, or `upstream gradient of OUTPUT`.
    """

    carries: tuple[str, ...] = ()
    own: bool = False
    written: tuple[str, ...] = ()
    passed_over: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a process holds: threads, child processes, open files, bytes of its own.

    `host_bytes` is 0 in a process in which cuassay keeps something as well, `device_bytes`, which
    torch has allocated on a GPU, where there is none. `objects` are the small blocks of memory that
    Python has given out, `garbage` the objects in circles that its collector has freed, 0 where
    cuassay has some; `calls` counts the calls made until then.
    """

    calls: int
    threads: int
    processes: int
    files: int
    host_bytes: int
    device_bytes: int = 0
    objects: int = 0
    garbage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """A CallOften: what the process held in between, first to last."""

    found: tuple[Holding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A Serve: how many calls were made, fewer than asked for where they took too long.

    `least_s` is the least time of each slot of the turn, in seconds, its first call aside; of none
    that was called once.
    """

    calls: int
    least_s: tuple[float, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """A CallVaried: how many calls it made, and pairs of changes with the same result."""

    calls: int
    alike: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A Call: in what it returned its outputs: tuple, list, dict, a type's name, or '' (bare)."""

    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """A CallRanks: whether its groups were at work at once, else one after another."""

    together: bool


Report: TypeAlias = (
    Laid | Repeats | Differentiated | Holdings | Served | Varied | Returned | Grouped
)
