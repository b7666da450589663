"""What a check needs of a trial to run: of its process, of its turn, and of what runs beside it.

`judge/schedule.py` makes the order of a trial of it, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from cuassay.model.steps import Mode


class Process(Enum):
    """Which process a check runs its scenarios in, beside what each of them asks for."""

    ANY = auto()  # whatever process of its group is there
    NEW_IF_WRONG = auto()  # the same; a scenario that asks for a new one passes in a used one too
    UNTOUCHED = auto()  # one in which nothing ran; it leaves it as it is
    OWN = auto()  # what it does or reads is the whole process's: nothing runs before or after it

    @property
    def takes_any(self) -> bool:
        """Whether a process in which other checks ran will do."""
        return self in (Process.ANY, Process.NEW_IF_WRONG)


class When(Enum):
    """A check's turn, where it is not that of its place in the registry."""

    FIRST = auto()  # it decides with which state others call a module
    DECISIVE = auto()  # at `quick` before the others: time that ends without it decides little
    EARLY = auto()  # it waits for a process or a compiler: of several sides the first free takes it
    ANY = auto()
    LATE = auto()  # at `quick` last, in the process at hand, whatever ran there
    AFTER_SIDES = auto()  # it looks at what all checks before it saw: once all sides have ended
    EXECUTED = auto()  # last: the PTX machine executes its recordings beside the others
    AFTER_CLEAN = auto()  # last, where nothing was wrong; its process begins beside the others


class Split(Enum):
    """Which sides of a trial run a check's scenarios, and how many at the same time."""

    FIRST_SIDE = auto()
    ANY_SIDE = auto()  # one side, any, at the same time as other checks
    AMONG_SIDES = auto()  # the first side; those that have no check left take scenarios of it
    AT_ONCE = auto()  # the first side, all of them at the same time


class Group(StrEnum):
    """Beyond `quick` checks of a group share processes, and those of two groups do not."""

    HOST = "host"
    MEMORY = "memory"
    NUMERIC = "numeric"
    SHAPES = "shapes"
    LAYOUT = "layout"
    LOOPS = "loops"
    REPEAT = "repeat"
    MACHINE = "machine"
    RANKS = "ranks"
    NONE = "none"  # it shares a process with no other check


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a check needs to run.

    `mode` is that of the processes of its scenarios, where it is always one. What it looks at
    exists on an NVIDIA `gpu` alone, and no other check of the trial runs where it runs `alone`.
    """

    process: Process = Process.ANY
    when: When = When.ANY
    split: Split = Split.FIRST_SIDE
    group: Group = Group.NUMERIC
    mode: Mode = Mode.PLAIN
    gpu: bool = False
    alone: bool = False
