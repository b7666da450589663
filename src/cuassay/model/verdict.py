"""The verdict on a candidate, with everything that it depends on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.machine import LaunchCount, SourceView
from cuassay.model.outcome import CheckReport, Failed, Finding, worst_first
from cuassay.model.profile import Profile as Profile
from cuassay.model.proofs import Proof
from cuassay.model.scope import Scope


class Decision(enum.StrEnum):
    """May the kernel ship?"""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRule:
    """The problem's own tolerance on its own inputs: their verdict beside ours.

    The largest errors are over all outputs of that workload, against the reference as written.
    Where nobody stated a tolerance it is not `stated`: cuassay holds the call against a coarse one,
    to learn where truth has to be asked, and no verdict shows it.
    """

    accepted: bool | None
    matched_ratio: float | None
    required_ratio: float
    atol: float
    rtol: float
    workload: str
    worst_output: str = ""
    note: str = ""
    max_absolute_error: float | None = None
    max_relative_error: float | None = None
    stated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """How many broken versions of the reference the inputs used can tell from the real one.

    `benchmark_killed` is the same count for the benchmark's own inputs and rule.
    """

    mutants: int
    killed: int
    survivors: tuple[str, ...] = ()
    benchmark_killed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What one call takes at the sizes in `axes`, in microseconds, on cold caches.

    By the judge's clock: the candidate, the reference in eager torch and compiled by
    torch.compile; `floor_us` is what moving the inputs and outputs once takes. None where it
    was not measured.
    """

    axes: Mapping[str, int]
    candidate_us: float
    eager_us: float | None = None
    compiled_us: float | None = None
    floor_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds spent, from process start to verdict, split by what they went into."""

    total_s: float
    build_s: float = 0.0
    truth_s: float = 0.0
    candidate_s: float = 0.0
    compare_s: float = 0.0


class Lane(enum.StrEnum):
    """Who spends a span of a trial's time."""

    JUDGE = "judge"  # a check, or a part of the verdict: it holds spans of the other lanes
    BESIDE = "beside"  # a check that runs at the same time as those of `judge`
    TRUTH = "truth"  # the reference lifted, its draws and yardsticks
    COMPARE = "compare"
    CANDIDATE = "candidate"  # a scenario in the candidate's processes, the build included
    REFERENCE = "reference"  # a scenario with the reference as the candidate
    MACHINE = "machine"  # recorded launches in the PTX machine
    APART = "apart"  # a process without cuassay, beside the checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One piece of a trial's time, in seconds since the trial began.

    `parts_s`: what a scenario's seconds went into, by name (see `sandbox.host.parts`).
    """

    lane: Lane
    what: str
    begin_s: float
    end_s: float
    parts_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCoverage:
    """The sizes of one var axis that checks ran the candidate at, inside the declared domain.

    `values` are sorted; `checks` counts how many of them each check tried, by its code.
    """

    axis: str
    values: tuple[int, ...] = ()
    checks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSizes:
    """One set of sizes of the var axes that checks ran the candidate at.

    `failed` says whether a wrong result was found there.
    """

    sizes: Mapping[str, int]
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on one candidate for one problem.

    `sources` are the candidate's files with what the PTX machine saw on their lines, where it
    executed them. `notes` is what was assumed or passed over while reading the problem and the
    candidate; `coverage` has every var axis of the problem, and is empty for a replay;
    `tried_sizes` are the sizes of the axes together, some hundred at most. `walls`
    says of each wall around the candidate's process whether it stood (see model.walls).
    `diagnoses` are the causes, the one to repair first in front; they explain the findings.
    `proved` is what was asked to hold for all sizes, with its exact scope and answer. `launches`
    counts what the PTX machine judged of the launches that were recorded. `scope` says how far
    the trial looked; it is empty for a replay.
    """

    decision: Decision
    reason: str
    problem: str
    candidate: str
    profile: Profile
    device: str
    digest: str
    truth: str  # float64 | float32
    truth_reason: str
    precision_grade: str
    checks: tuple[CheckReport, ...]
    conditions: tuple[str, ...] = ()
    benchmark_rule: BenchmarkRule | None = None
    power: Power | None = None
    timing: Timing = Timing(total_s=0.0)
    environment: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    run: str = ""
    notes: tuple[str, ...] = ()
    coverage: tuple[AxisCoverage, ...] = ()
    tried_sizes: tuple[TriedSizes, ...] = ()
    speed: Speed | None = None
    sources: tuple[SourceView, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    timeline: tuple[Span, ...] = ()
    workers: int = 0  # processes for candidate and reference: on a GPU a context each
    walls: Mapping[str, str] = field(default_factory=dict)
    proved: tuple[Proof, ...] = ()
    launches: LaunchCount = field(default_factory=LaunchCount)
    scope: Scope = field(default_factory=Scope)

    @property
    def passed(self) -> bool:
        """Whether the kernel may ship under the stated conditions."""
        return self.decision is Decision.ACCEPTED

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three values: ask verdict.passed or verdict.decision")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, wrong first, then unsafe, then advice, worst share first."""
        found = [
            finding
            for check in self.checks
            for finding in (
                *(check.outcome.findings if isinstance(check.outcome, Failed) else ()),
                *check.advice,
            )
        ]
        return worst_first(found)
