"""What the machine saw in a launch: findings, statistics and how far the result reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxsan.footprints import Touched
    from ptxsan.precision import SiteNumbers


class Kind(StrEnum):
    """The closed list of what the machine reports."""

    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    READ_ONLY = "write-to-read-only"
    INVALID_FREE = "invalid-free"
    UNINITIALISED = "uninitialised"
    RACE = "race"
    SAME_VALUE_RACE = "same-value-race"
    UNORDERED = "unordered"
    ACQUIRE_FENCE = "missing-acquire-fence"
    DIVERGENT_BARRIER = "divergent-barrier"
    DIVERGENT_COLLECTIVE = "divergent-collective"
    DEADLOCK = "deadlock"
    EXITED_SHARED = "shared-memory-of-exited-block"
    MBARRIER = "mbarrier-misuse"
    PROXY_FENCE = "missing-proxy-fence"
    BAD_COPY = "invalid-bulk-copy"
    TRAP = "trap"
    ASSERT = "assert"
    ADDRESS_OVERFLOW = "address-overflow"
    UNCOALESCED = "uncoalesced"
    BANK_CONFLICT = "bank-conflict"
    PRECISION = "precision"
    REFUSED_LAUNCH = "refused-launch"
    UNSEEN_ERROR = "unseen-error"
    UNWRITTEN_COPY = "uninitialised-copy"
    FREED = "use-after-free"
    STREAM_RACE = "stream-race"


class Severity(StrEnum):
    """`wrong` rejects, `note` is worth a look, `advice` is about speed or style."""

    WRONG = "wrong"
    NOTE = "note"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access or arrival: which thread did what on which line.

    `block` and `thread` are (x, y, z); `what` is `read`, `write`, `atomic` or the opcode. What the
    host of a program does has no PTX line (0).
    """

    what: str
    ptx_line: int
    source_file: str | None
    source_line: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFinding:
    """One fault at one instruction (or pair of them), with its first example and its count.

    `accesses` holds the access at fault first, then its partner in a race. `address` is the byte
    address in `space`; `allocation` the buffer or symbol it was meant for, `offset` the byte
    offset from its start (may be negative or beyond its end), `bytes` the access's width.
    `count` says how often it happened; `measures` carries numbers of precision findings.
    """

    kind: Kind
    severity: Severity
    text: str
    accesses: tuple[Access, ...] = ()
    space: str = ""
    address: int | None = None
    allocation: str = ""
    offset: int | None = None
    bytes: int = 0
    count: int = 1
    measures: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> MachineFinding:
        """Return the finding that `dataclasses.asdict` made a row of, through JSON."""
        accesses = tuple(
            Access(**one | {"block": tuple(one["block"]), "thread": tuple(one["thread"])})
            for one in row["accesses"]
        )
        known = {**row, "kind": Kind(row["kind"]), "severity": Severity(row["severity"])}
        return cls(**known | {"accesses": accesses})

    @property
    def ptx_line(self) -> int:
        """The PTX line of the access at fault; 0 where there is none."""
        return self.accesses[0].ptx_line if self.accesses else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counts of one launch: lane-instructions executed, times, and memory of the machine."""

    lane_instructions: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    state_bytes: int = 0
    kernel_bytes: int = 0
    executed_lines: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """The result of one launch.

    `oblivious` is True where no branch and no address depends on what buffers hold, so that the
    findings on races, bounds, initialisation and barriers (or their absence) hold for all data
    at this launch; `data_dependent` lists the PTX lines where it does depend.
    `sites` has the numbers of every float instruction that ran, where shadows were carried.
    `printed` has a line a call of printf with its thread, `output` the text alone.
    `touched` says which bytes of which buffers were accessed, where `Options.footprints` asks.
    `inconclusive` is None, or why the launch could not be executed to its end (an unknown
    instruction with its line, a limit); its findings up to there are still true.
    """

    findings: tuple[MachineFinding, ...]
    statistics: Statistics
    oblivious: bool
    data_dependent: tuple[int, ...] = ()
    schedule: str = ""
    inconclusive: str | None = None
    printed: tuple[str, ...] = ()
    output: str = ""
    not_covered: tuple[str, ...] = ()
    sites: tuple[SiteNumbers, ...] = ()
    touched: tuple[Touched, ...] = ()

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject."""
        return tuple(one for one in self.findings if one.severity is Severity.WRONG)
