"""Verdicts as workflow commands of GitHub Actions: annotations, and a job summary.

GitHub drops what exceeds 10 annotations of a kind in a step without saying so: at most eight
are written, worst first, and one more line that says how many were left out. Everything that
is not an annotation stands between `::stop-commands::` fences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuassay.model.outcome import Finding, FindingClass
from cuassay.report import words
from cuassay.report.clean import clean, github_fence, one_line
from cuassay.report.judged import Judged, place
from cuassay.report.markdown import SUMMARY_BYTES, markdown
from cuassay.report.terminal import story

ANNOTATIONS = 8
_KINDS = {
    FindingClass.WRONG: "error",
    FindingClass.UNSAFE: "warning",
    FindingClass.ADVICE: "notice",
}


def log(trials: Sequence[Judged], *, token: str | None = None) -> str:
    """Return what a step prints: each story, fenced, and then the annotations.

    `token` fixes the fence's random word; for tests.
    """
    stories = [_story(judged) for judged in trials]
    return "\n".join((github_fence("\n\n".join(stories), token=token), annotate(trials)))


def annotate(trials: Sequence[Judged]) -> str:
    """Return the annotations, at most eight and one that counts the rest."""
    every = sorted(
        (item for judged in trials for item in _annotations(judged)), key=lambda item: item[0]
    )
    lines = [text for _, text in every[:ANNOTATIONS]]
    if len(every) > ANNOTATIONS:
        more = f"{len(every) - ANNOTATIONS} more findings are in the job summary"
        lines.append(f"::notice title=cuassay::{more}")
    return "\n".join(lines)


def summary(trials: Sequence[Judged]) -> str:
    """Return the job summary as Markdown, within GitHub's limit."""
    return markdown(trials, limit=SUMMARY_BYTES)


def _story(judged: Judged) -> str:
    if judged.verdict is None:
        return f"{judged.name}: no verdict: {judged.reason}"
    return f"{judged.name}\n{story(judged.verdict)}"


def _annotations(judged: Judged) -> Iterator[tuple[int, str]]:
    """Yield each annotation with its rank: errors before warnings before notices."""
    verdict = judged.verdict
    if verdict is None or verdict.decision.value == "INCONCLUSIVE":
        title = f"cuassay: {judged.word}"
        yield 0, _command("error", title, judged.reason, path=_path(judged), line=1)
    if verdict is None:
        return
    for finding in words.identified(verdict):
        line = place(finding, judged)
        kind = _KINDS[finding.finding_class]
        rank = ("error", "warning", "notice").index(kind)
        title = f"cuassay {one_line(finding.code, limit=20)} {one_line(finding.title, limit=80)}"
        yield rank, _command(kind, title, _message(finding), path=line.path, line=line.line)


def _path(judged: Judged) -> str:
    return judged.name


def _message(finding: Finding) -> str:
    share = f" ({words.times(finding.share)})" if finding.share is not None else ""
    rows = [f"{one_line(finding.message)}{share}"]
    if finding.reproduce:
        rows.append(f"Reproduce: {one_line(finding.reproduce)}")
    return "\n".join(rows)


def _command(kind: str, title: str, message: str, *, path: str, line: int) -> str:
    return (
        f"::{kind} file={_property(path)},line={line},title={_property(title)}::"
        f"{_data(message, limit=1500)}"
    )


def _data(value: str, *, limit: int) -> str:
    """Escape a command's message: the runner unescapes exactly these three."""
    text = clean(value)[:limit].replace("##[", "# #[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value, limit=300).replace(":", "%3A").replace(",", "%2C")
