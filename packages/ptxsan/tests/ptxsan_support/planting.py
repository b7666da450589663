"""What is planted in safe kernels for proofs: one text replaced, and what is safe in its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Expected(StrEnum):
    """What is planted: nothing, a fault of memory, one of order (races, barriers), or a read of
    memory that nobody wrote.
    """

    SAFE = "safe"
    MEMORY = "memory"
    RACES = "races"
    INITIALIZED = "initialized"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: `old` becomes `new` in a safe kernel. With `safe` in its place it is safe again,
    and looks much like the fault: this is the fault's twin.
    """

    what: str
    kind: Expected
    old: str
    new: str
    safe: str


@dataclass(frozen=True, slots=True)
class Planted:
    """Faults of one safe kernel, which is named by the beginning of its name."""

    kernel: str
    faults: tuple[Fault, ...]
