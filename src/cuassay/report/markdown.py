"""Verdicts as GitHub-flavoured Markdown: a comment on a pull request, a job summary.

Text of a candidate can neither format nor mention nor link: punctuation is escaped, `<` and
`&` are entities, and a zero-width space breaks mentions, issue references and web addresses.
Code stands in fences longer than any run of backticks in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import Finding, FindingClass
from cuassay.report import words
from cuassay.report.clean import clean, one_line
from cuassay.report.judged import Judged

MARKER = "<!-- cuassay -->"  # by which the comment of an earlier run is found and replaced
COMMENT_CHARACTERS = 65_000  # GitHub takes 65 536
SUMMARY_BYTES = 1_000_000  # GitHub takes 1 MiB
_SIGNS = {
    "ACCEPTED": "✅ ACCEPTED",
    "REJECTED": "❌ REJECTED",
    "INCONCLUSIVE": "❔ INCONCLUSIVE",
    "NO VERDICT": "❔ NO VERDICT",
}
_CARDS = 3
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")
_ACTIVE = re.compile(r"@|#(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=GH-)(?=\d)", re.IGNORECASE)
_TICKS = re.compile(r"`+")


def markdown(trials: Sequence[Judged], *, limit: int = COMMENT_CHARACTERS) -> str:
    """Return the text on some trials, at most `limit` UTF-8 bytes long, worst first."""
    order = ("REJECTED", "NO VERDICT", "INCONCLUSIVE", "ACCEPTED")
    ranked = sorted(trials, key=lambda judged: order.index(judged.word))
    counts = {judged.word: 0 for judged in ranked}
    for judged in ranked:
        counts[judged.word] += 1
    headline = (
        ", ".join(f"{number} {word}" for word, number in counts.items()) or "nothing to check"
    )
    head = [MARKER, f"## cuassay: {headline}", ""]
    head += ["| kernel | verdict | why |", "|---|---|---|"]
    rows = (
        f"| {text(one.name, limit=120)} | {_SIGNS[one.word]} | {text(one.reason, limit=240)} |"
        for one in ranked
    )
    table, left = _fitting(rows, len(ranked), limit=limit * 2 // 3)
    shown = "\n".join([*head, *table])
    if left:
        shown += f"\n\n{left} more kernels are in the run folders.\n"
    room = limit - len(shown.encode()) - 200
    details, left = _fitting(map(_details, ranked), len(ranked), limit=room)
    tail = [f"{left} more kernels are shown in the report files."] if left else []
    return "\n\n".join([shown, *details, *tail]) + "\n"


def text(value: str, *, limit: int = 400) -> str:
    """Return untrusted text in one line, inert in Markdown."""
    inert = one_line(value, limit=limit).replace("&", "&amp;").replace("<", "&lt;")
    inert = inert.replace(">", "&gt;")
    return _PUNCTUATION.sub(r"\\\1", _ACTIVE.sub(lambda found: f"{found[0]}\u200b", inert))


def code(value: str, *, limit: int = 400) -> str:
    """Return untrusted text in one line as a span of code, in table cells too."""
    return "`" + one_line(value, limit=limit).replace("`", "'").replace("|", "/") + "`"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of untrusted cells as lines; the first row is its head."""
    made = ["| " + " | ".join(text(cell, limit=900) for cell in row) + " |" for row in rows]
    return [made[0], "|" + "---|" * len(rows[0]), *made[1:]]


def fenced(value: str, *, language: str = "") -> str:
    """Return untrusted text as a block of code."""
    body = clean(value)
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _fitting(blocks: Iterable[str], count: int, *, limit: int) -> tuple[list[str], int]:
    """Return the first of `count` blocks that fit into `limit` bytes, and how many do not.

    Blocks that do not fit are never made.
    """
    kept: list[str] = []
    used = 0
    for number, block in enumerate(blocks):
        used += len(block.encode()) + 2
        if used > limit:
            return kept, count - number
        kept.append(block)
    return kept, 0


def _details(judged: Judged) -> str:
    verdict = judged.verdict
    name = f"<b>{_SIGNS[judged.word]}</b> {text(judged.name, limit=120)}"
    opened = "" if judged.accepted else " open"
    if verdict is None:
        body = text(judged.stopped)
    else:
        causes = words.diagnosed(verdict)
        found = [finding for finding, _ in words.explained(verdict)]
        sides = words.rule_sides(verdict)
        rows = [f"- as long as: {text(condition)}" for condition in verdict.conditions[:10]]
        if sides.differ:
            rows.append(
                f"- the problem's own tolerance says **{sides.theirs}** ({text(sides.theirs_why)})"
            )
        rows.append(f"- power: {text(words.power_line(verdict.power))}")
        if verdict.speed is not None:
            rows.append(f"- speed: {text(words.speed_line(verdict.speed))}")
        left = words.not_checked(verdict)
        rows += [f"- not checked: {text(line, limit=200)}" for line in left[:4]]
        if len(left) > 4:
            rows.append(f"- not checked: {len(left) - 4} more, in the report")
        device = verdict.environment.get("device", "") or verdict.device
        rows.append(
            f"- profile {verdict.profile.value} on {text(device, limit=80)}, "
            f"{words.seconds(verdict.timing.total_s)}, digest `{one_line(verdict.digest)[:16]}`"
        )
        body = "\n\n".join((*map(_cause, causes), *map(_finding, found[:_CARDS]), "\n".join(rows)))
    return f"<details{opened}><summary>{name}</summary>\n\n{body}\n\n</details>"


def _cause(made: Diagnosis) -> str:
    rows = [f"**Cause**: {text(words.cause_line(made), limit=600)}"]
    if made.line is not None and made.line.text:
        rows.append(fenced(words.source_text(made.line)))
    rows.append(f"**To do**: {text(made.remedy)}")
    return "\n\n".join(rows)


def _finding(finding: Finding) -> str:
    kind = "condition" if finding.finding_class is FindingClass.UNSAFE else finding.finding_class
    share = f", **{words.times(finding.share)}**" if finding.share is not None else ""
    rows = [
        f"**{text(finding.id, limit=20)} {text(finding.code, limit=20)}** ({kind}, "
        f"{finding.severity.value}{share}): {text(finding.message)}"
    ]
    if where := words.place(finding):
        rows.append(f"Where: {text(where)}. {text(words.values(finding))}".rstrip())
    if finding.counterexample:
        example = "\n".join(words.block(finding.counterexample, lines=20))
        rows.append(f"Smallest failing input:\n{fenced(example, language='python')}")
    elif finding.evidence:
        rows.append(fenced("\n".join(words.block(finding.evidence, lines=12))))
    if finding.reproduce:
        rows.append(f"Reproduce:\n{fenced(one_line(finding.reproduce), language='sh')}")
    return "\n\n".join(rows)
