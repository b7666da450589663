"""Verdicts as workflow commands of GitHub Actions: annotations, and a job summary.

GitHub drops what exceeds 10 annotations of a kind in a step without saying so: at most eight
are written, worst first, and one more line that says how many were left out. Everything that
is not an annotation stands between `::stop-commands::` fences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision
from cuassay.report import words
from cuassay.report.clean import clean, github_fence, one_line
from cuassay.report.judged import Judged, line_shown
from cuassay.report.markdown import SUMMARY_BYTES, markdown
from cuassay.report.terminal.trial import story

ANNOTATIONS = 8
_KINDS = {
    FindingClass.WRONG: "error",
    FindingClass.UNSAFE: "warning",
    FindingClass.ADVICE: "notice",
}
_RANKS = tuple(_KINDS.values())


def log(trials: Sequence[Judged], *, token: str | None = None) -> str:
    """Return what a step prints: each story, fenced, and then the annotations.

    `token` fixes the fence's random word; for tests.
    """
    stories = []
    for judged in trials:
        if judged.verdict is None:
            stories.append(f"{judged.name}: no verdict: {judged.reason}")
        else:
            stories.append(f"{judged.name}\n{story(judged.verdict)}")
    return "\n".join((github_fence("\n\n".join(stories), token=token), annotate(trials)))


def annotate(trials: Sequence[Judged]) -> str:
    """Return the annotations, at most eight and one that counts the rest.

    Findings of one check at one line are one annotation, which says how many they are.
    """
    groups: dict[_Mark, list[str]] = {}
    for judged in trials:
        for mark, message in _annotations(judged):
            groups.setdefault(mark, []).append(message)
    every = sorted(groups.items(), key=lambda item: _RANKS.index(item[0].kind))
    lines = [mark.command(messages) for mark, messages in every[:ANNOTATIONS]]
    left = sum(len(messages) for _, messages in every[ANNOTATIONS:])
    if left:
        lines.append(f"::notice title=cuassay::{left} more findings are in the job summary")
    return "\n".join(lines)


def summary(trials: Sequence[Judged]) -> str:
    """Return the job summary as Markdown, within GitHub's limit."""
    return markdown(trials, limit=SUMMARY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """Where an annotation stands, what it is called and how bad it is."""

    kind: str
    title: str
    path: str
    line: int

    def command(self, messages: Sequence[str]) -> str:
        """Return the workflow command of these findings, the first of them in full."""
        more = f"\nand {len(messages) - 1} more like it" if len(messages) > 1 else ""
        return (
            f"::{self.kind} file={_property(self.path)},line={self.line},"
            f"title={_property(self.title)}::{_data(messages[0] + more, limit=1500)}"
        )


def _annotations(judged: Judged) -> Iterator[tuple[_Mark, str]]:
    """Yield each finding with the mark that it belongs to, and an open verdict first."""
    verdict = judged.verdict
    if verdict is None or verdict.decision is Decision.INCONCLUSIVE:
        title = f"cuassay: {judged.word}"
        yield _Mark(kind="error", title=title, path=judged.name, line=1), judged.reason
    if verdict is None:
        return
    for finding, cause in words.explained(verdict):
        line = line_shown(finding, judged)
        title = f"cuassay {one_line(finding.code, limit=20)} {one_line(finding.title, limit=80)}"
        kind = _KINDS[finding.finding_class]
        share = f" ({words.times(finding.share)})" if finding.share is not None else ""
        rows = [] if cause is None else [words.cause_line(cause), f"Do: {cause.remedy}"]
        rows.append(f"{one_line(finding.message)}{share}")
        if finding.reproduce:
            rows.append(f"Reproduce: {one_line(finding.reproduce)}")
        yield (
            _Mark(kind=kind, title=title, path=line.path, line=line.line),
            "\n".join(rows),
        )


def _data(value: str, *, limit: int) -> str:
    """Escape a command's message: the runner unescapes exactly these three."""
    text = clean(value)[:limit].replace("##[", "# #[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value, limit=300).replace(":", "%3A").replace(",", "%2C")
