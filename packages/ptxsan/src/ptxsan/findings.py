"""What the machine saw in a launch: findings, statistics and how far the result reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    ENDED_BEFORE = "ended-before-barrier"
    DIVERGENT_COLLECTIVE = "divergent-collective"
    DEADLOCK = "deadlock"
    EXITED_SHARED = "shared-memory-of-exited-block"
    MBARRIER = "mbarrier-misuse"
    PROXY_FENCE = "missing-proxy-fence"
    BAD_COPY = "invalid-bulk-copy"
    TENSOR_MEMORY = "tensor-memory-misuse"
    TENSOR_FENCE = "missing-tensor-fence"
    TENSOR_WAIT = "missing-tensor-wait"
    LAUNCH_CONTROL = "launch-control-misuse"
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
    PEER_ACCESS = "no-peer-access"
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
    host of a program does has no PTX line (0). Where several devices run at once, `device` is the
    thread's, `launch` the number of its launch there, from 1, and `kernel` what was launched.
    """

    what: str
    ptx_line: int
    source_file: str | None
    source_line: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    device: int | None = None
    launch: int = 0
    kernel: str = ""

    @property
    def on_device(self) -> str:
        """Where several devices run at once, which of them and which launch, in words."""
        if self.device is None:
            return ""
        return f" on device {self.device} (launch {self.launch}, {self.kernel})"


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
    def place(self) -> tuple[object, ...]:
        """What two findings share that are one for the user: kind, memory, lines of the source.

        Of an access at fault by itself also whether it reads or writes.
        """
        lines = sorted(
            (access.source_file or "", access.source_line or access.ptx_line)
            for access in self.accesses
        )
        alone = self.accesses[0].what if len(self.accesses) == 1 else ""
        return self.kind, self.allocation, alone, *lines

    @property
    def ptx_line(self) -> int:
        """The PTX line of the access at fault; 0 where there is none."""
        return self.accesses[0].ptx_line if self.accesses else 0


_PAIRS = 6  # of lines that a finding names
ORDER = frozenset((Kind.UNORDERED, Kind.ACQUIRE_FENCE, Kind.TENSOR_FENCE, Kind.TENSOR_WAIT))
"""What is no error by itself: order that only scopes, fences, acquire and release would give."""


def joined(findings: Iterable[MachineFinding]) -> tuple[MachineFinding, ...]:
    """Return each finding once: the first of those at one place, with the count of all.

    One statement becomes many instructions where a loop is unrolled. What several runs of a launch
    show at the same instructions is counted once.
    """
    kept: dict[tuple[object, ...], MachineFinding] = {}
    counted: set[tuple[object, ...]] = set()
    for one in findings:
        pair = one.place, *sorted(access.ptx_line for access in one.accesses)
        if pair not in counted:
            counted.add(pair)
            first = kept.get(one.place)
            more = 0 if first is None else first.count
            kept[one.place] = replace(first or one, count=one.count + more)
    return tuple(kept.values())


def connected(findings: Iterable[MachineFinding]) -> tuple[MachineFinding, ...]:
    """Return findings in which races in shared memory that have a line in common are one.

    Where a barrier is missing, threads run on, and meet others at lines further on. The one that
    was found first stays, and names the pairs of lines of the others.
    """
    kept: list[tuple[MachineFinding, list[MachineFinding], set[tuple[str | None, int]]]] = []
    rest = []
    for one in findings:
        lines = {
            (access.source_file, access.source_line)
            for access in one.accesses[:2]
            if access.source_line is not None
        }
        race = one.kind is Kind.RACE and one.severity is Severity.WRONG and one.space == "shared"
        if not race or not lines:
            rest.append(one)
            continue
        touching = [group for group in kept if group[2] & lines]
        first, others, known = touching[0] if touching else (one, [], set[tuple[str | None, int]]())
        if touching:
            others.append(one)
        else:
            kept.append((first, others, known))
        known |= lines
        for group in touching[1:]:
            others += [group[0], *group[1]]
            known |= group[2]
            kept.remove(group)
    return (*(_with_others(first, others) for first, others, _ in kept), *rest)


def _with_others(first: MachineFinding, others: Sequence[MachineFinding]) -> MachineFinding:
    pairs = {  # a copy that nobody waited for may have one line only
        tuple(sorted(access.source_line or 0 for access in one.accesses[:2])): one.count
        for one in others
    }
    if not pairs:
        return first
    said = [
        f"{' and '.join(map(str, lines))} ({count} times)" for lines, count in sorted(pairs.items())
    ]
    more = f" and {len(said) - _PAIRS} pairs more" if len(said) > _PAIRS else ""
    text = f"{first.text}; so do lines {', '.join(said[:_PAIRS])}{more}"
    return replace(first, text=text, count=first.count + sum(one.count for one in others))


def strict(findings: Iterable[MachineFinding]) -> tuple[MachineFinding, ...]:
    """Return findings in which missing order (ORDER) is an error."""
    return tuple(
        replace(one, severity=Severity.WRONG) if one.kind in ORDER else one for one in findings
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counts of one launch: lane-instructions executed, times, and memory of the machine.

    `outcomes` maps the PTX line of a comparison, or of an integer `min` or `max`, to what came out
    of it in any thread: False, True (the first operand is the smaller one), or both.
    """

    lane_instructions: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    state_bytes: int = 0
    kernel_bytes: int = 0
    executed_lines: frozenset[int] = frozenset()
    outcomes: Mapping[int, frozenset[bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """The result of one launch.

    `oblivious` is True where no branch and no address depends on what buffers hold, so that the
    findings on races, bounds, initialisation and barriers (or their absence) hold for all data
    at this launch; `data_dependent` lists the PTX lines where it does depend.
    `sites` has the numbers of every float instruction that ran, where shadows were carried.
    `printed` has a line a call of printf with its thread, `output` the text alone.
    `touched` says which bytes of which buffers were accessed, where `Options.footprints` asks.
    `unended` are the numbers of those of several launches at once that have not ended.
    `inconclusive` is None, or why the launch could not be executed to its end (an unknown
    instruction with its line, a limit); its findings up to there are still true. `not_covered` is
    what no run looks at, `left_out` what this launch uses and was not looked at.
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
    left_out: tuple[str, ...] = ()
    sites: tuple[SiteNumbers, ...] = ()
    touched: tuple[Touched, ...] = ()
    unended: tuple[int, ...] = ()

    @property
    def wrong(self) -> tuple[MachineFinding, ...]:
        """The findings that reject."""
        return tuple(one for one in self.findings if one.severity is Severity.WRONG)
