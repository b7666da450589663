"""What an audit is: the candidates that were found, and how the trial of each ended.

An audit's tables (by operator family, failure class, author) are computed from these by
`report.audit_tables`; nothing here is derived.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import FindingClass, Severity
from cuassay.model.precision import Precision
from cuassay.model.verdict import Decision, Profile


class Ending(enum.StrEnum):
    """How the trial of one candidate ended."""

    JUDGED = "judged"  # with a verdict
    UNREADABLE = "unreadable"  # a file of the problem or the candidate is off
    STOPPED = "stopped"  # the trial could not be carried out: no tool, a failing reference
    LOST = "lost"  # the machine that judged it went away more often than is tried again
    NOT_RUN = "not run"  # the budget was spent before its turn


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditItem:
    """One candidate of the plan with the problem that it is judged against.

    `problem` and `candidate` are what `cuassay check` takes; `id` names the pair within its
    tree and `key` is the SHA-256 of everything read from disk for it: a run that is resumed
    judges an item again only where its key changed.
    """

    id: str
    problem: str
    candidate: str
    problem_name: str
    candidate_name: str
    key: str
    author: str = ""
    family: str = "other"
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Something in the tree that is no candidate and was passed over, with the reason."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """A finding without its reproducer, which is in the candidate's own run folder."""

    id: str
    code: str
    title: str
    message: str
    classes: tuple[str, ...]
    finding_class: FindingClass
    severity: Severity
    share: float | None = None
    output: str = ""
    condition: str = ""
    reproduce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """How the trial of one item ended. `run` is the candidate's run folder within the audit's.

    `theirs` is what the benchmark's own rule said, None where it was not evaluated.
    `verdict` is None for UNREADABLE and NOT_RUN. `attempts` counts the times it was started.
    """

    item: AuditItem
    ending: Ending
    verdict: Decision | None = None
    reason: str = ""
    conditions: tuple[str, ...] = ()
    findings: tuple[AuditFinding, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    theirs: bool | None = None
    digest: str = ""
    device: str = ""
    precision_grade: str = ""
    seed: int | None = None
    mutants: int | None = None
    killed: int | None = None
    theirs_killed: int | None = None
    candidate_us: float | None = None
    eager_us: float | None = None
    duration_s: float = 0.0
    lane: str = ""
    attempts: int = 1
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHeader:
    """What an audit was asked for. Seeds of the candidates are derived from `seed` and their key.

    `started_at` is UTC in ISO 8601; `filters` are the words of the command line that chose.
    """

    id: str
    tree: str
    profile: Profile
    device: str
    seed: int
    started_at: str
    version: str
    executor: str = "local"
    require: tuple[str, ...] = ()
    precision: Precision | None = None
    filters: tuple[str, ...] = ()
    budget_s: float | None = None
    strict: bool = False
    own_problem: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPower:
    """How many broken versions of one reference a benchmark's own inputs and rule let through.

    `survivors` are those that its rule accepts, in words; `trivial` those among them that are
    trivial answers (an input returned, zeros, a constant, another seed's answer, a wrong row).
    `mutants` leaves out those that no legal input tells from the reference. `key` is the SHA-256
    of the problem's files.
    """

    problem: str
    problem_name: str
    family: str
    mutants: int = 0
    killed_ours: int = 0
    killed_theirs: int | None = None
    survivors: tuple[str, ...] = ()
    trivial: tuple[str, ...] = ()
    reason: str = ""  # why it could not be measured; empty where it was
    duration_s: float = 0.0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A whole audit, finished or not: results in the order of the plan."""

    header: AuditHeader
    results: tuple[AuditResult, ...] = ()
    oddities: tuple[Oddity, ...] = ()
    powers: tuple[ProblemPower, ...] = ()
    finished_at: str = ""
    wall_s: float = 0.0
