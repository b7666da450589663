"""One finding as a card of at most twelve terminal lines, and as one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from cuassay.model.diagnosis import Cause, Diagnosis
from cuassay.model.failure_classes import class_names
from cuassay.model.outcome import Finding
from cuassay.report import words
from cuassay.report.clean import clean, one_line
from cuassay.report.terminal.layout import STYLES, Marks, bar, code, command, labelled, wrapped

LINES = 16  # twelve, and room for a smallest input
_BESIDE = 18  # columns of the label, and of the mark of a row that goes on
_EVIDENCE = 4  # findings named below a cause
_ERROR = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)


def card(finding: Finding, *, width: int, signs: Marks) -> list[Text]:
    """Return what was seen, measured against allowed, where, the input and the command."""
    lines = [_head(finding, signs=signs)]
    lines += [Text("  " + row) for row in wrapped(_message(finding), width=width - 2, lines=3)]
    if place := words.place(finding):
        values = words.values(finding)
        where = f"{place}: {values}" if values else place
        lines += labelled("where", where, width=width, lines=2)
    lines += _measure(finding, width=width, signs=signs)
    if finding.growth is not None:
        lines += labelled("growth", words.growth_line(finding.growth), width=width, lines=2)
    last = command("reproduce", one_line(finding.reproduce)) if finding.reproduce else []
    room = LINES - len(lines) - len(last)
    if room <= 0:
        example = []
    elif finding.evidence and finding.measured is None:
        example = code("evidence", _excerpt(finding.evidence, lines=min(room, 5)), style="dim")
    else:
        short = words.sizes(finding.where.axes)
        fills = ", ".join(
            f"{one_line(name, limit=40)} {one_line(fill, limit=40)}"
            for name, fill in finding.where.fills.items()
        )
        summary = "; ".join(part for part in (short, fills) if part)
        if finding.counterexample:
            example = _example(finding.counterexample, width=width, lines=room)
        else:
            example = (
                labelled("input", summary, width=width, style="cyan", lines=room) if summary else []
            )
    return lines + example + last


def diagnosis_card(
    made: Diagnosis, findings: Sequence[Finding], *, width: int, signs: Marks, number: int
) -> list[Text]:
    """Return a cause: in words, its line, the smallest input, what to do, how to see it."""
    label = "cause" if number == 1 else f"cause {number}"
    lines = labelled(label, one_line(made.words), width=width, style="bold")
    if made.line is not None:
        lines += labelled("line", words.source_text(made.line), width=width, style="cyan")
    own = [finding for name in made.findings for finding in findings if finding.id == name]
    if made.example:
        lines += _example(made.example, width=width, lines=12)
    elif own and own[0].evidence and own[0].measured is None:
        lines += code("evidence", _excerpt(own[0].evidence, lines=5), style="dim")
    elif own and own[0].where.axes:
        if made.cause is not Cause.WRONG_VALUES and (seen := words.values(own[0])):
            lines += labelled("where", f"{words.place(own[0])}: {seen}", width=width)
        lines += labelled("input", words.sizes(own[0].where.axes), width=width, style="cyan")
    lines += labelled("do", made.remedy, width=width)
    if own:
        told = [
            f"{one_line(f.id, limit=20)} {one_line(f.code, limit=20)}"
            + (f" ({words.times(f.share)})" if f is own[0] and f.share is not None else "")
            for f in own[:_EVIDENCE]
        ]
        more = f", and {len(own) - _EVIDENCE} more" if len(own) > _EVIDENCE else ""
        lines += labelled("findings", ", ".join(told) + more, width=width)
        if own[0].reproduce:
            lines += command("reproduce", one_line(own[0].reproduce))
    return lines


def _example(text: str, *, width: int, lines: int) -> list[Text]:
    """Return a smallest input within the width: what follows a long line begins with `#`."""
    rows: list[str] = []
    for row in words.block(text, lines=lines):
        parts = wrapped(row, width=width - _BESIDE) if len(row) > width - _BESIDE else [row]
        rows += [parts[0], *(f"#   {one}" for one in parts[1:])]
    return code("smallest", rows[:lines], style="cyan")


def brief(finding: Finding, *, signs: Marks) -> Text:
    """Return a finding in one line."""
    text = _head(finding, signs=signs)
    text.append(f": {_message(finding)}")
    return text


def _head(finding: Finding, *, signs: Marks) -> Text:
    kind = finding.finding_class.value
    sign = {"wrong": signs.failed, "unsafe": signs.condition}.get(kind, signs.dot)
    classes = f" ({one_line(class_names(finding.classes[:6]), limit=160)})"
    return Text.assemble(
        (f"{sign} {one_line(finding.id, limit=20)} {one_line(finding.code, limit=20)}",
         STYLES[kind]),
        (f" {kind}, {finding.severity.value}", STYLES[kind]),
        (classes if finding.classes else "", "dim"),
    )  # fmt: skip


def _message(finding: Finding) -> str:
    return one_line(finding.message) or one_line(finding.title)


def _measure(finding: Finding, *, width: int, signs: Marks) -> list[Text]:
    if finding.measured is None:
        return []
    statistic = one_line(finding.statistic, limit=120)
    allowed = f", allowed {words.number(finding.allowed)}" if finding.allowed is not None else ""
    text = f"{words.number(finding.measured)}{allowed}" + (f" ({statistic})" if statistic else "")
    lines = labelled("measured", text, width=width, lines=2)
    if finding.share is not None:
        lines += labelled("budget", "", width=width)
        lines[-1].append_text(bar(finding.share, signs=signs))
        lines[-1].append(f" {words.times(finding.share)}", style="bold")
    return lines


def _excerpt(evidence: str, *, lines: int) -> list[str]:
    """Return the telling lines of a log: from its first error on, else its end."""
    every = [row for row in clean(evidence).splitlines() if row.strip()]
    first = next((n for n, row in enumerate(every) if _ERROR.search(row)), None)
    start = max(0, len(every) - lines) if first is None else first
    return [row[:200] for row in every[start : start + lines]]
