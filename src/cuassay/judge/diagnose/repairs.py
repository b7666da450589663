"""Which small edit of the candidate makes it right on every case tried, and where it stands.

Edits (`diagnosis.edits`) are tried one at a time, the likeliest first, in processes of their own.
One counts if the scenario of the finding that leads earns no finding any more, if calls that were
wrong are right, and if calls that were right stay right. A broken edit fails one of the three.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import inconclusive_reason
from cuassay.checks.registry import all_checks
from cuassay.diagnosis.edits import Edit, EditKind, edits
from cuassay.errors import CuassayError
from cuassay.judge.decide.examine import judge_scenario
from cuassay.model.candidate import Candidate, Language, SourceFile
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

Runs = Callable[[Candidate], "AbstractContextManager[Callable[[Scenario], Run]]"]
# Whether a candidate that runs so is right on every call that was wrong, and on one that was not.
Answers = Callable[["Callable[[Scenario], Run]"], bool]
_LONGEST = 60_000  # characters of a source that is edited


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """An edit with which a candidate was right on the cases tried, and the line that it changes."""

    edit: Edit
    line: SourceLine

    def cause(  # noqa: C901, PLR0911  # one exhaustive match
        self, before: Cause, *, accumulates: bool
    ) -> Cause:
        """Return the cause of wrong numbers that this repair shows; `before` where it shows none.

        `accumulates` says that the error is known to grow with a reduction.
        """
        match self.edit.kind:
            case EditKind.PRECISION:
                carried = self.edit.carried or self.edit.filled
                sums = accumulates or carried or before is Cause.LOW_ACCUMULATION
                return Cause.LOW_ACCUMULATION if sums else Cause.LOW_PRECISION
            case EditKind.BRANCH:
                return Cause.SIZES if self.edit.sizes else Cause.SPECIAL_CASE
            case EditKind.INDEX:
                return Cause.INPUT_MISREAD
            case EditKind.NAME:
                return Cause.INPUT_MISREAD if self.edit.given else before
            case EditKind.OPERATOR | EditKind.FUNCTION if before is Cause.WRONG_VALUES:
                return Cause.OTHER_FORM
            case EditKind.AXIS if before in (Cause.WRONG_VALUES, Cause.SPECIAL_CASE):
                return Cause.WRONG_REDUCTION
            case EditKind.FACTOR:
                return Cause.INPUT_IGNORED
            case EditKind.PARAMETER:
                # A name that is used elsewhere is no argument that is ignored.
                return Cause.SIZES if self.edit.sizes else before
            case EditKind.ROUND_UP:
                return Cause.TAIL
            case EditKind.PART | EditKind.NUMBER if (
                self.edit.indexed and not self.edit.sizes and not self.edit.ranged
            ):
                return Cause.INPUT_MISREAD
            case EditKind.NUMBER if before in (Cause.WRONG_VALUES, Cause.SPECIAL_CASE):
                return Cause.WRONG_CONSTANT
            case EditKind.CONTIGUOUS:
                return before
            case (
                EditKind.PART
                | EditKind.NUMBER
                | EditKind.AXIS
                | EditKind.STATEMENT
                | EditKind.DECORATOR
                | EditKind.FILL
                | EditKind.COPY
                | EditKind.COMPARISON
                | EditKind.ORDER
                | EditKind.FUNCTION
                | EditKind.OPERATOR
                | EditKind.MASK
                | EditKind.CONFIGURATIONS
            ):
                return before


def find_repair(
    trial: JudgeTrial,
    candidate: Candidate,
    finding: Finding | None,
    *,
    cause: Cause,
    runs: Runs,
    answers: Answers,
    ran: frozenset[tuple[str, int]],
    near: SourceLine | None,
    worth: Callable[[Edit], bool],
    limit: int,
    until: float,
) -> Repair | None:
    """Return the first edit that repairs the candidate, None where none of those tried does.

    `finding` leads the diagnosis of `cause` (None: its scenario need not run again, the calls of
    `answers` do); `ran` are the lines of a call, `near` a line that is suspected. At most `limit`
    edits that are `worth` it are tried, and none that would end after `until` (of time.monotonic)
    if it took as long as one before it: an edited extension is built anew.
    """
    if candidate.language is not Language.PYTHON:
        return None
    check = None
    if finding is not None:
        check = next((one for one in all_checks() if one.code == finding.code), None)
        if check is None or finding.scenario is None:
            return None
    tried = _tried(candidate, cause, ran, near)
    tried = [pair for pair in tried if worth(pair[1].edit)]
    longest_s = 0.0
    for edited, repair in tried[:limit]:
        begun = time.monotonic()
        if begun + longest_s > until:
            return None
        try:
            with runs(edited) as run:
                if check is not None and finding is not None and finding.scenario is not None:
                    scenario = dataclasses.replace(finding.scenario, fresh=True)
                    ended = run(scenario)
                    if inconclusive_reason(ended):
                        continue
                    found = judge_scenario(trial, check, scenario, ended).findings
                    if any(one.finding_class is FindingClass.WRONG for one in found):
                        continue
                if answers(run):
                    return repair
        except CuassayError:
            continue
        finally:
            longest_s = max(longest_s, time.monotonic() - begun)
    return None


def _tried(
    candidate: Candidate, cause: Cause, ran: frozenset[tuple[str, int]], near: SourceLine | None
) -> Sequence[tuple[Candidate, Repair]]:
    """Return edited candidates in the order in which they are tried.

    Kinds of edits take turns, so that no kind uses up the budget; in a kind the lines closest to
    the suspected one come first.
    """

    def distance(repair: Repair) -> int:
        if near is None or near.file != repair.line.file:
            return 0
        return abs(near.line - repair.line.line)

    by_kind: dict[EditKind, list[tuple[Candidate, Repair]]] = {}
    for edited, repair in _every(candidate, cause, ran):
        by_kind.setdefault(repair.edit.kind, []).append((edited, repair))
    groups = [sorted(group, key=lambda pair: distance(pair[1])) for group in by_kind.values()]
    most = max(map(len, groups), default=0)
    turn = 4  # edits of one kind at a time
    return [
        pair
        for start in range(0, most, turn)
        for group in groups
        for pair in group[start : start + turn]
    ]


def _every(
    candidate: Candidate, cause: Cause, ran: frozenset[tuple[str, int]]
) -> Iterator[tuple[Candidate, Repair]]:
    files = sorted(candidate.sources, key=lambda source: source.path != candidate.entry_file)
    for source in files:
        if source.is_adapter or not source.path.endswith(".py") or len(source.text) > _LONGEST:
            continue
        lines = frozenset(line for file, line in ran if file == source.path)
        rows = source.text.splitlines()
        for edit in edits(source.text, cause=cause, ran=lines):
            changed = SourceFile(path=source.path, text=edit.text)
            sources = tuple(changed if s is source else s for s in candidate.sources)
            what = f"a copy with {edit.words} was right on the cases tried"
            text = rows[edit.line - 1].strip()
            line = SourceLine(file=source.path, line=edit.line, text=text, what=what)
            yield dataclasses.replace(candidate, sources=sources), Repair(edit=edit, line=line)
