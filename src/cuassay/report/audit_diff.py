"""What changed between two audits: verdicts, findings, candidates that came and went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cuassay.model.audit import Audit, AuditResult
from cuassay.model.verdict import Decision
from cuassay.report.clean import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One candidate that is in both audits and ended differently.

    `edited` says whether its files or its problem's changed in between; `appeared` and `gone`
    are codes of checks.
    """

    old: AuditResult
    new: AuditResult
    appeared: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def edited(self) -> bool:
        """Whether what was judged is not the same."""
        digests = {self.old.digest, self.new.digest}
        return self.old.item.key != self.new.item.key or (len(digests) == 2 and "" not in digests)

    @property
    def regressed(self) -> bool:
        """Whether an accepted kernel is no longer accepted."""
        was = self.old.verdict is Decision.ACCEPTED
        return was and self.new.verdict is not Decision.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two audits compared; `same` counts candidates that ended alike."""

    changes: tuple[Change, ...]
    added: tuple[AuditResult, ...]
    removed: tuple[AuditResult, ...]
    same: int

    @property
    def regressions(self) -> tuple[Change, ...]:
        """Changes from accepted to anything else."""
        return tuple(change for change in self.changes if change.regressed)


def difference(old: Audit, new: Audit) -> Difference:
    """Return what changed; candidates are the same where problem and candidate stand alike."""
    before = {_name(result): result for result in old.results}
    after = {_name(result): result for result in new.results}
    shared = [(before[name], after[name]) for name in after if name in before]
    changes = [change for pair in shared if (change := _change(*pair)) is not None]
    return Difference(
        changes=tuple(sorted(changes, key=lambda change: not change.regressed)),
        added=tuple(result for name, result in after.items() if name not in before),
        removed=tuple(result for name, result in before.items() if name not in after),
        same=len(shared) - len(changes),
    )


def lines(found: Difference) -> Iterator[str]:
    """Yield what a terminal shows."""
    yield (
        f"{found.same} ended alike, {len(found.changes)} changed "
        f"({len(found.regressions)} no longer accepted), {len(found.added)} added, "
        f"{len(found.removed)} removed"
    )
    for change in found.changes:
        mark = f"{_verdict(change.old)} -> {_verdict(change.new)}".ljust(28)
        plus = [f"+{code}" for code in change.appeared]
        minus = [f"-{code}" for code in change.gone]
        edited = ["(edited)"] if change.edited else ["(the same files)"]
        codes = "  " + " ".join((*plus, *minus, *edited))
        yield f"  {mark}  {_who(change.new)}{codes}"
    for word, results in (("added", found.added), ("removed", found.removed)):
        for result in results:
            yield f"  {word:<28}  {_who(result)}  {_verdict(result)}"


def document(found: Difference) -> dict[str, Any]:
    """Return the comparison as JSON data."""
    return {
        "schema": "cuassay/diff/1",
        "same": found.same,
        "changes": [
            {
                "problem": one_line(change.new.item.problem_name),
                "candidate": one_line(change.new.item.candidate_name),
                "old": _verdict(change.old),
                "new": _verdict(change.new),
                "edited": change.edited,
                "regressed": change.regressed,
                "appeared": list(change.appeared),
                "gone": list(change.gone),
            }
            for change in found.changes
        ],
        "added": [_named(result) for result in found.added],
        "removed": [_named(result) for result in found.removed],
    }


def _change(old: AuditResult, new: AuditResult) -> Change | None:
    before = {finding.code for finding in old.findings}
    after = {finding.code for finding in new.findings}
    same = (old.verdict, old.ending, before) == (new.verdict, new.ending, after)
    if same:
        return None
    return Change(
        old=old,
        new=new,
        appeared=tuple(sorted(after - before)),
        gone=tuple(sorted(before - after)),
    )


def _name(result: AuditResult) -> tuple[str, str]:
    return result.item.problem_name, result.item.candidate_name


def _verdict(result: AuditResult) -> str:
    return result.verdict.value if result.verdict else result.ending.value


def _who(result: AuditResult) -> str:
    return one_line(f"{result.item.problem_name} / {result.item.candidate_name}", limit=90)


def _named(result: AuditResult) -> dict[str, str]:
    return {
        "problem": one_line(result.item.problem_name),
        "candidate": one_line(result.item.candidate_name),
        "verdict": _verdict(result),
    }
