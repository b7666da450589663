"""What a check saw and how it ended."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.scenario import Scenario


class FindingClass(enum.StrEnum):
    """wrong rejects, unsafe becomes a condition of use, advice lies outside the contract."""

    WRONG = "wrong"
    UNSAFE = "unsafe"
    ADVICE = "advice"


class Severity(enum.StrEnum):
    """How bad: silent wrong numbers outrank loud failures."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where it shows: the output, the slice or group in words, the worst index and values."""

    output: str = ""
    group: str = ""
    index: tuple[int, ...] = ()
    got: str = ""
    expected: str = ""
    axes: Mapping[str, int] = field(default_factory=dict)
    fills: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPoint:
    """Relative error at one length of the growth axis: candidate's and trusted."""

    length: int
    error: float
    trusted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """error ~ length**exponent along `axis`, and the error projected to `target`."""

    axis: str
    points: tuple[GrowthPoint, ...]
    exponent: float
    target: int
    projected: float
    trusted_exponent: float
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What came and what was expected along one line through the worst element.

    `axis` is `columns` or `rows` of the output seen as a matrix (its last axis is the columns),
    `start` the index of the first value. Values may be NaN or infinite.
    """

    axis: str
    start: int
    got: tuple[float, ...]
    expected: tuple[float, ...]


# Upper ends, in units of the achievable error, of the classes that ErrorMap.counts counts; the
# last two classes are what is above all of them, and what is not finite.
COUNT_BOUNDS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMap:
    """Worst z = error / achievable error per tile of the worst output, row-major.

    `counts` are the elements by size of |z|, in the classes of COUNT_BOUNDS; `curve` runs through
    the worst element.
    """

    rows: int
    columns: int
    cells: tuple[float, ...]
    tile: tuple[int, int]
    output: str
    counts: tuple[int, ...] = ()
    curve: Curve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check saw. `share` is measured / allowed: above 1 the budget is overspent.

    `scenario` is the reproducer, `reproduce` the command that replays it. `cause` is what the
    check knows of the cause (None: only that something is wrong), `lines` the candidate's lines
    at fault, the first one first; `holds_for` says which other inputs the smallest one stands for.
    """

    code: str
    title: str
    message: str
    classes: tuple[str, ...]
    finding_class: FindingClass
    severity: Severity
    measured: float | None = None
    allowed: float | None = None
    statistic: str = ""
    where: Where = Where()
    seed: int | None = None
    reproduce: str = ""
    condition: str = ""  # for unsafe: what the acceptance then depends on
    scenario: Scenario | None = None
    growth: Growth | None = None
    error_map: ErrorMap | None = None
    counterexample: str = ""  # Python text that shows the minimal failing input
    details: tuple[tuple[str, str], ...] = ()
    evidence: str = ""  # untrusted text: traceback, compiler log, printed output
    id: str = ""
    cause: Cause | None = None
    lines: tuple[SourceLine, ...] = ()
    holds_for: str = ""

    @property
    def share(self) -> float | None:
        """Measured over allowed, or None where nothing was measured."""
        if self.measured is None or not self.allowed:
            return None
        return self.measured / self.allowed

    def as_condition(self, condition: str, *, severity: Severity = Severity.MEDIUM) -> Finding:
        """Return the finding as a condition of use, which rejects only where it is required."""
        return replace(
            self, finding_class=FindingClass.UNSAFE, severity=severity, condition=condition
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The check ran and saw nothing wrong; `share` is the largest part of a budget used."""

    share: float | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The check saw at least one wrong or unsafe finding."""

    findings: tuple[Finding, ...]
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconclusive:
    """The check ran but could not tell; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The check did not run; `reason` says what is missing. Never a pass.

    `applicable` is False where the problem has nothing for the check to look at (no index
    input, say); a strict profile turns only applicable skips into INCONCLUSIVE. `needs_gpu`
    where the trial runs on a CPU and the check looks at what a GPU alone has.
    """

    reason: str
    applicable: bool = True
    needs_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Errored:
    """The check itself failed: our fault, with its traceback."""

    reason: str
    traceback: str = ""


Outcome: TypeAlias = Passed | Failed | Inconclusive | Skipped | Errored


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """One check's end: code, outcome, advice findings, and how long it took.

    `clean` counts the scenarios that were judged and showed nothing. `withheld` says what the
    candidate did not complete although the reference does: such a report is never a pass.
    """

    code: str
    title: str
    outcome: Outcome
    advice: tuple[Finding, ...] = ()
    duration_s: float = 0.0
    scenarios: int = 0
    clean: int = 0
    withheld: str = ""

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The wrong results that the check saw: any of them rejects, whatever is required."""
        if not isinstance(self.outcome, Failed):
            return ()
        return tuple(f for f in self.outcome.findings if f.finding_class is FindingClass.WRONG)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings wrong first, then unsafe, then advice, worst share first."""
    return tuple(sorted(findings, key=_gravity))


def _gravity(finding: Finding) -> tuple[int, int, float]:
    order = ("wrong", "unsafe", "advice").index(finding.finding_class.value)
    severity = ("critical", "high", "medium", "low").index(finding.severity.value)
    return order, severity, -(finding.share or 0.0)
