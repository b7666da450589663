"""The tables of an audit, computed from its results; terminal, JSON and HTML show the same.

A kernel counts as *faulty* where its verdict is REJECTED. "Their verdict" is the benchmark's
own rule on its own inputs, as the judge evaluated it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cuassay.model.audit import Audit, AuditFinding, AuditResult, Ending
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision

UNCLASSED = "-"  # a finding that names no failure class


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How many candidates ended how, and how the two verdicts agree.

    `theirs_accepted` counts verdicts on kernels that the benchmark's own rule accepts,
    `theirs_accepted_rejected` those of them that are REJECTED: the share that should not ship.
    """

    candidates: int
    judged: int
    accepted: int
    accepted_clean: int  # without any condition
    rejected: int
    inconclusive: int
    unreadable: int
    stopped: int
    lost: int
    not_run: int
    findings: int
    theirs_accepted: int
    theirs_accepted_rejected: int
    theirs_rejected_accepted: int

    @property
    def faulty_share(self) -> float | None:
        """Share of benchmark-accepted kernels that are REJECTED; None where none was accepted."""
        if not self.theirs_accepted:
            return None
        return self.theirs_accepted_rejected / self.theirs_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGroup:
    """The candidates that share a family, an author or a problem."""

    name: str
    candidates: int
    accepted: int
    rejected: int
    inconclusive: int
    other: int  # unreadable, lost, not run
    theirs_accepted: int
    theirs_accepted_rejected: int

    @property
    def rejected_share(self) -> float | None:
        """Rejected over decided (accepted or rejected); None where none was decided."""
        decided = self.accepted + self.rejected
        return self.rejected / decided if decided else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCell:
    """Candidates with a wrong finding, by operator family, failure class and author."""

    family: str
    failure_class: str
    author: str
    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """Why kernels fail: a check's code and title, over kernels and over benchmark-accepted ones."""

    code: str
    title: str
    candidates: int
    theirs_accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One line of the re-ranked leaderboard. Ranks count from 1 within the problem.

    `their_rank` orders what the benchmark's rule accepts by speed alone; None where it
    rejects or nothing was timed. `speedup` is eager time over the candidate's.
    """

    rank: int
    their_rank: int | None
    result: AuditResult
    speedup: float | None


def totals(audit: Audit) -> Totals:
    """Return the sums over all candidates."""
    results = audit.results
    endings = Counter(result.ending for result in results)
    verdicts = Counter(result.verdict for result in results)
    passed = [r for r in results if r.theirs]
    return Totals(
        candidates=len(results),
        judged=endings[Ending.JUDGED],
        accepted=verdicts[Decision.ACCEPTED],
        accepted_clean=sum(r.verdict is Decision.ACCEPTED and not r.conditions for r in results),
        rejected=verdicts[Decision.REJECTED],
        inconclusive=verdicts[Decision.INCONCLUSIVE],
        unreadable=endings[Ending.UNREADABLE],
        stopped=endings[Ending.STOPPED],
        lost=endings[Ending.LOST],
        not_run=endings[Ending.NOT_RUN],
        findings=sum(len(result.findings) for result in results),
        theirs_accepted=len(passed),
        theirs_accepted_rejected=sum(r.verdict is Decision.REJECTED for r in passed),
        theirs_rejected_accepted=sum(
            r.theirs is False and r.verdict is Decision.ACCEPTED for r in results
        ),
    )


def by_family(audit: Audit) -> tuple[CandidateGroup, ...]:
    """Return a group an operator family, the one that fails most first."""
    return _groups(audit.results, lambda result: result.item.family)


def by_author(audit: Audit) -> tuple[CandidateGroup, ...]:
    """Return a group an author or model, the one that fails most first."""
    return _groups(audit.results, lambda result: result.item.author or "unknown")


def by_problem(audit: Audit) -> tuple[CandidateGroup, ...]:
    """Return a group a problem, the one that fails most first."""
    return _groups(audit.results, lambda result: result.item.problem_name)


def cells(audit: Audit) -> tuple[FailureCell, ...]:
    """Return the non-empty cells of family x failure class x author, sorted.

    A candidate counts once in each cell that one of its wrong findings falls into.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for result in audit.results:
        author = result.item.author or "unknown"
        # The leading class of each wrong finding: a check names the one it is for first.
        names = {one.classes[0] if one.classes else UNCLASSED for one in _wrong(result)}
        counts.update({(result.item.family, name, author) for name in names})
    return tuple(
        FailureCell(family=family, failure_class=name, author=author, candidates=count)
        for (family, name, author), count in sorted(counts.items())
    )


def causes(audit: Audit) -> tuple[FailureCause, ...]:
    """Return the checks that rejected kernels, the most frequent first."""
    titles: dict[str, str] = {}
    all_of: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for result in audit.results:
        wrong = _wrong(result)
        titles.update((finding.code, finding.title) for finding in wrong)
        codes = {finding.code for finding in wrong}
        all_of.update(codes)
        if result.theirs:
            passed.update(codes)
    ordered = sorted(all_of, key=lambda code: (-all_of[code], code))
    return tuple(
        FailureCause(code=c, title=titles[c], candidates=all_of[c], theirs_accepted=passed[c])
        for c in ordered
    )


def leaderboard(audit: Audit) -> dict[str, tuple[Standing, ...]]:
    """Return, for every problem, its candidates ranked by correctness first, then by speed."""
    problems: dict[str, list[AuditResult]] = {}
    for result in audit.results:
        problems.setdefault(result.item.problem_name, []).append(result)
    return {name: _ranked(results) for name, results in sorted(problems.items())}


def speedup(result: AuditResult) -> float | None:
    """Return eager time over the candidate's, None where either was not measured."""
    if result.candidate_us is None or result.eager_us is None or result.candidate_us <= 0:
        return None
    return result.eager_us / result.candidate_us


def _ranked(results: Sequence[AuditResult]) -> tuple[Standing, ...]:
    timed = [r for r in results if r.theirs and speedup(r) is not None]
    timed.sort(key=lambda r: (-(speedup(r) or 0.0), r.item.id))
    theirs = {result.item.id: rank for rank, result in enumerate(timed, start=1)}
    order = {Decision.ACCEPTED: 0, Decision.INCONCLUSIVE: 1, Decision.REJECTED: 2, None: 3}
    ordered = sorted(results, key=lambda r: (order[r.verdict], -(speedup(r) or 0.0), r.item.id))
    return tuple(
        Standing(
            rank=rank,
            their_rank=theirs.get(result.item.id),
            result=result,
            speedup=speedup(result),
        )
        for rank, result in enumerate(ordered, start=1)
    )


def _groups(
    results: Iterable[AuditResult], name_of: Callable[[AuditResult], str]
) -> tuple[CandidateGroup, ...]:
    members: dict[str, list[AuditResult]] = {}
    for result in results:
        members.setdefault(name_of(result), []).append(result)
    groups = []
    for name, found in members.items():
        verdicts = Counter(result.verdict for result in found)
        passed = [result for result in found if result.theirs]
        groups.append(
            CandidateGroup(
                name=name,
                candidates=len(found),
                accepted=verdicts[Decision.ACCEPTED],
                rejected=verdicts[Decision.REJECTED],
                inconclusive=verdicts[Decision.INCONCLUSIVE],
                other=verdicts[None],
                theirs_accepted=len(passed),
                theirs_accepted_rejected=sum(r.verdict is Decision.REJECTED for r in passed),
            )
        )
    return tuple(sorted(groups, key=lambda g: (-(g.rejected_share or 0.0), -g.rejected, g.name)))


def _wrong(result: AuditResult) -> tuple[AuditFinding, ...]:
    if result.verdict is not Decision.REJECTED:
        return ()
    wrong = tuple(f for f in result.findings if f.finding_class is FindingClass.WRONG)
    # With --require an unsafe finding rejects as well.
    return wrong or tuple(f for f in result.findings if f.finding_class is FindingClass.UNSAFE)
